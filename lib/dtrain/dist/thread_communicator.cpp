#include "dtrain/dist/thread_communicator.hpp"

#include <ATen/ATen.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "dtrain/base/error.hpp"

namespace dtrain {
namespace {

// What the ranks share: one queue of messages for each (channel, from, to).
struct PostOffice {
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::tuple<int, int, int>, std::deque<at::Tensor>> boxes;
  bool closed = false;  // a rank has failed
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<PostOffice> office, int rank, int size, int channel)
      : office_(std::move(office)), rank_(rank), size_(size), channel_(channel) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) override {
    std::unique_lock lock(office_->mutex);
    for (const Message& message : sends)
      office_->boxes[{channel_, rank_, message.peer}].push_back(message.data.clone());
    office_->arrived.notify_all();
    for (const Message& message : receives) {
      auto& box = office_->boxes[{channel_, message.peer, rank_}];
      const bool in_time =
          office_->arrived.wait_for(lock, std::chrono::seconds(60), [&] { return office_->closed || !box.empty(); });
      if (box.empty())
        throw CommError(in_time ? "another rank has failed"
                                : "rank " + std::to_string(message.peer) + " sent nothing for 60 s");
      const at::Tensor data = box.front();
      box.pop_front();
      check(data.sizes() == message.data.sizes() && data.dtype() == message.data.dtype(),
            "both sides agree on a message");
      at::Tensor(message.data).copy_(data);
    }
  }

  // The n-th duplicate of one channel has the same number on every rank, because all ranks make the same calls.
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<ThreadCommunicator>(office_, rank_, size_, channel_ * 16 + ++duplicates_);
  }

 private:
  std::shared_ptr<PostOffice> office_;
  int rank_;
  int size_;
  int channel_;
  int duplicates_ = 0;
};

}  // namespace

void run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  auto office = std::make_shared<PostOffice>();
  std::vector<std::exception_ptr> failures(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        ThreadCommunicator comm(office, rank, ranks, 1);
        body(comm);
      } catch (...) {
        failures[static_cast<size_t>(rank)] = std::current_exception();
        const std::lock_guard lock(office->mutex);
        office->closed = true;
        office->arrived.notify_all();
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::exception_ptr first;
  for (const std::exception_ptr& failure : failures) {
    if (failure == nullptr) continue;
    try {
      std::rethrow_exception(failure);
    } catch (const CommError&) {
      if (first == nullptr) first = failure;
    } catch (...) {
      throw;
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace dtrain
