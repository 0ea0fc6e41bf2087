#include "dtrain/base/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace dtrain {
namespace {

class Crew {
 public:
  Crew(size_t count, const std::function<void(size_t)>& work) : count_(count), work_(work) {}

  void run(size_t threads, const std::function<void()>& tick) {
    {
      std::vector<std::jthread> crew;
      working_ = std::min(threads, count_);
      try {
        for (size_t t = std::min(threads, count_); t > 0; --t) crew.emplace_back([this] { take(); });
        if (tick) wait(tick);
      } catch (...) {  // no thread can be started, or `tick` threw: the threads end after their current item
        next_ = count_;
        throw;
      }
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void take() {
    for (size_t i = next_++; i < count_; i = next_++) {
      try {
        work_(i);
      } catch (...) {
        next_ = count_;
        const std::lock_guard lock(mutex_);
        if (i < failed_) error_ = std::current_exception();
        failed_ = std::min(failed_, i);
      }
    }
    const std::lock_guard lock(mutex_);
    if (--working_ == 0) done_.notify_all();
  }

  void wait(const std::function<void()>& tick) {
    std::unique_lock lock(mutex_);
    while (!done_.wait_for(lock, std::chrono::milliseconds(100), [this] { return working_ == 0; })) {
      lock.unlock();
      tick();
      lock.lock();
    }
  }

  const size_t count_;
  const std::function<void(size_t)>& work_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable done_;
  size_t working_ = 0;
  size_t failed_ = SIZE_MAX;
  std::exception_ptr error_;
};

}  // namespace

void run_in_parallel(size_t count, size_t threads, const std::function<void(size_t)>& work,
                     const std::function<void()>& tick) {
  Crew(count, work).run(threads, tick);
}

}  // namespace dtrain
