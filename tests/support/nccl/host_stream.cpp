#include "support/nccl/host_stream.hpp"

#include <chrono>

#include "support/nccl/chance.hpp"

namespace dtrain::test {

WorkerStream::WorkerStream(uint64_t seed, int64_t most_pause_us)
    : seed_(seed), most_pause_us_(most_pause_us), thread_([this] { run(); }) {}

WorkerStream::~WorkerStream() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    held_ = false;
  }
  changed_.notify_all();
  thread_.join();
}

void WorkerStream::push(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  ++pushed_;
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

void WorkerStream::hold() {
  const std::lock_guard lock(mutex_);
  held_ = true;
}

void WorkerStream::release() {
  const std::lock_guard lock(mutex_);
  held_ = false;
  changed_.notify_all();
}

void WorkerStream::run() {
  Chance chance(seed_);
  for (std::unique_lock lock(mutex_);;) {
    changed_.wait(lock, [this] { return !held_ && (leaving_ || !queue_.empty()); });
    if (queue_.empty()) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const int64_t times = chance.below(16) == 0 ? 30 : 1;
    std::this_thread::sleep_for(std::chrono::microseconds(times * chance.below(most_pause_us_ + 1)));
    work();
    ++done_;
    lock.lock();
  }
}

}  // namespace dtrain::test
