#include "dtrain/dist/thread_communicator.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/dist/host_memory.hpp"
#include "dtrain/dist/message.hpp"

namespace dtrain {
namespace {

// Memory that all ranks can reach, since they are threads of one process.
struct SharedSegments {
  explicit SharedSegments(size_t ranks) : words(ranks), segments(ranks) {}
  std::vector<BarrierWord> words;
  std::vector<at::Tensor> segments;
  size_t ready = 0;
};

// What the ranks share: one queue of messages for each (channel, from, to), and the memory of each share().
struct PostOffice {
  std::vector<int> host_of;
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::tuple<int, int, int>, std::deque<at::Tensor>> boxes;
  std::map<std::pair<int, int>, std::shared_ptr<SharedSegments>> shared;  // key: channel, number of the share()
  std::atomic<bool> closed{false};                                        // a rank has failed
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
      const bool in_time = office_->arrived.wait_for(lock, limit_, [&] { return office_->closed || !box.empty(); });
      if (box.empty())
        throw CommError(in_time ? "another rank has failed"
                                : "rank " + std::to_string(message.peer) + " sent nothing for " +
                                      fixed(limit_.count(), 1) + " s");
      const at::Tensor data = box.front();
      box.pop_front();
      check(data.sizes() == message.data.sizes() && data.dtype() == message.data.dtype(),
            "both sides agree on a message");
      at::Tensor(message.data).copy_(data);
    }
  }

  void all_reduce(at::Tensor& tensor) override {
    std::vector<Message> sends;
    std::vector<Message> receives;
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      sends.push_back({r, tensor});
      receives.push_back({r, at::empty_like(tensor)});
    }
    exchange(sends, receives);
    at::Tensor sum = at::zeros_like(tensor);
    for (int r = 0; r < size_; ++r)  // in order of rank, so that all ranks get the same bits
      sum.add_(r == rank_ ? tensor : receives[static_cast<size_t>(r < rank_ ? r : r - 1)].data);
    tensor.copy_(sum);
  }

  HostMemory share(int64_t numel, c10::Device device) override {
    check(device.is_cpu(), "threads share host memory");
    std::unique_lock lock(office_->mutex);
    auto& shared = office_->shared[{channel_, ++shares_}];
    if (!shared) shared = std::make_shared<SharedSegments>(static_cast<size_t>(size_));
    const std::shared_ptr<SharedSegments> mine = shared;
    mine->segments[static_cast<size_t>(rank_)] = at::zeros({numel}, at::kFloat);
    ++mine->ready;
    office_->arrived.notify_all();
    office_->arrived.wait_for(lock, limit_, [&] { return office_->closed || mine->ready == mine->segments.size(); });
    if (mine->ready < mine->segments.size()) throw CommError("another rank has not joined share()");
    HostMemory memory;
    std::map<int, size_t> places;
    std::vector<BarrierWord*> words;
    const std::vector<int>& host_of = office_->host_of;
    for (int r = 0; r < size_; ++r) {
      const auto [place, is_new] = places.try_emplace(host_of[static_cast<size_t>(r)], memory.hosts.size());
      if (is_new) memory.hosts.emplace_back();
      memory.hosts[place->second].push_back(r);
    }
    memory.host = places.at(host_of[static_cast<size_t>(rank_)]);
    for (const int r : memory.ranks()) {
      if (r == rank_) memory.local = memory.segments.size();
      memory.segments.push_back(mine->segments[static_cast<size_t>(r)]);
      words.push_back(&mine->words[static_cast<size_t>(r)]);
    }
    memory.barrier = HostBarrier(words, memory.local, &office_->closed);
    memory.keep_alive = mine;
    return memory;
  }

  // The n-th duplicate of one channel has the same number on every rank, because all ranks make the same calls.
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<ThreadCommunicator>(office_, rank_, size_, channel_ * 16 + ++duplicates_);
  }

  void limit_waits(double seconds) override { limit_ = std::chrono::duration<double>(seconds); }

 private:
  std::shared_ptr<PostOffice> office_;
  std::chrono::duration<double> limit_{60};
  int rank_;
  int size_;
  int channel_;
  int duplicates_ = 0;
  int shares_ = 0;
};

}  // namespace

void run_ranks(int ranks, const std::function<void(Communicator&)>& body, const std::vector<int>& host_of) {
  auto office = std::make_shared<PostOffice>();
  office->host_of = host_of.empty() ? std::vector<int>(static_cast<size_t>(ranks), 0) : host_of;
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
