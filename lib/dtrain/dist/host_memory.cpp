#include "dtrain/dist/host_memory.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <climits>

#include "dtrain/base/error.hpp"

namespace dtrain {

// The kernel's wait on a word. Not FUTEX_WAIT_PRIVATE, which works only within one process. With a time limit, so that
// a wake-up that was lost because its sender died costs a second and not the run.
static void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
  const timespec limit{1, 0};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, &limit, nullptr, 0);
}

static void wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

static bool reached(const std::atomic<uint32_t>& word, uint32_t wanted) {
  return static_cast<int32_t>(word.load(std::memory_order_acquire) - wanted) >= 0;  // the count may wrap
}

void HostBarrier::wait_for(BarrierWord& word) const {
  const auto begin = std::chrono::steady_clock::now();
  while (!reached(word.arrived, reached_)) {
    for (int looks = 0; looks < 64 && !reached(word.arrived, reached_); ++looks) continue;
    sched_yield();
    if (std::chrono::steady_clock::now() - begin > std::chrono::microseconds(50)) break;
  }
  while (!reached(word.arrived, reached_)) {
    if (given_up_ != nullptr && given_up_->load()) throw CommError("another rank has failed");
    word.sleepers.fetch_add(1);  // before reading it: either the sleeper sees the count or the waker sees the sleeper
    const uint32_t seen = word.arrived.load();
    if (static_cast<int32_t>(seen - reached_) < 0) sleep_while(word.arrived, seen);
    word.sleepers.fetch_sub(1);
  }
}

void HostBarrier::wait() {
  if (words_.size() < 2) return;
  ++reached_;
  BarrierWord& own = *words_[mine_];
  own.arrived.store(reached_);
  if (own.sleepers.load() > 0) wake_all(own.arrived);
  for (size_t i = 0; i < words_.size(); ++i)
    if (i != mine_) wait_for(*words_[i]);
}

HostMemory unshared_memory(int rank, int ranks, int64_t numel, c10::Device device) {
  HostMemory memory;
  for (int r = 0; r < ranks; ++r) memory.hosts.push_back({r});
  memory.host = static_cast<size_t>(rank);
  memory.segments = {at::zeros({numel}, at::TensorOptions(at::kFloat).device(device))};
  return memory;
}

}  // namespace dtrain
