#include "support/nccl/comm.hpp"

#include <nccl.h>

#include <chrono>
#include <cstdlib>

#include "support/nccl/patience.hpp"

namespace dtrain::test {

static bool ring_is_chosen() {
  const char* value = std::getenv("NCCL_ALGO");
  return value != nullptr && std::string(value) == "Ring";
}

StandInComm::StandInComm(const std::string& path, int ranks, int rank, int64_t number)
    : wire_(path, ranks, rank),
      ranks_(ranks),
      rank_(rank),
      ring_(ring_is_chosen()),
      plan_(read_stand_in_plan()),
      chance_(plan_.seed * 1000 + static_cast<uint64_t>(number * 64 + rank)),
      thread_([this] { carry_out_calls(); }) {}

int64_t StandInComm::drawn(int64_t bound) {
  const std::lock_guard lock(chance_mutex_);
  return chance_.below(bound);
}

void StandInComm::pause() {
  if (plan_.pause_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(drawn(plan_.pause_us + 1)));
}

void StandInComm::carry_out_calls() {
  for (std::unique_lock lock(mutex_);;) {
    changed_.wait(lock, [this] { return leaving_ || !calls_.empty(); });
    if (calls_.empty()) return;
    const std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    pause();
    call();
    lock.lock();
  }
}

StandInComm::Result StandInComm::state() {
  const Result now = state_;
  if (now != ncclSuccess || unseen_ <= 0) return now;
  --unseen_;  // two threads may look at once, so it may fall below 0
  return ncclInProgress;
}

StandInComm::Result StandInComm::ready(bool keep) {
  Result now = state();
  if (now == ncclInProgress) {
    now = ncclInvalidArgument;
    if (keep) state_ = now;
  }
  return now;
}

// An error stays; only a call that is still in progress succeeds.
void StandInComm::settle(Result result) {
  int expected = ncclInProgress;
  if (result == ncclSuccess)
    state_.compare_exchange_strong(expected, result);
  else
    state_ = result;
}

// Now and then the call is carried out before it returns, and otherwise a few looks pass before anybody learns of it.
StandInComm::Result StandInComm::begin(std::function<void()> call) {
  const bool wait = drawn(4) == 0;
  unseen_ = wait ? 0 : static_cast<int>(drawn(4));
  state_ = ncclInProgress;
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
    changed_.notify_all();
  }
  Patience patience("a call to be carried out");
  while (wait && state_ == ncclInProgress && patience.looks() < 250) patience.pause();
  return unseen_ > 0 ? ncclInProgress : state_.load();
}

StandInComm::Result StandInComm::start() {
  return begin([this] {
    Patience patience("the other ranks to start");
    const bool stalls = plan_.fault == "start" && plan_.rank == rank_;
    if (!stalls) wire_.join();
    while (!stop_ && (stalls || !wire_.all_joined())) patience.pause();
    settle(stop_ ? ncclInternalError : ncclSuccess);
  });
}

StandInComm::Result StandInComm::issue(StandInWork work) {
  if (finalized_) return ncclInvalidUsage;
  work.number = issued_++;
  const bool planned = plan_.rank == rank_ && !plan_.fault.empty() && plan_.fault != "start";
  work.struck = planned && issued_ == plan_.at;
  if (plan_.plant == "early")
    for (StandInOp& op : work.ops) {
      if (op.kind != StandInOp::send) continue;
      const char* data = static_cast<const char*>(op.from);
      work.early.emplace_back(data, data + op.bytes);
      op.from = work.early.back().data();
    }
  return begin([self = shared_from_this(), work = std::make_shared<StandInWork>(std::move(work))] {
    HostStream* stream = work->stream;
    stream->push([self, work] { self->run(*work); });
    self->settle(ncclSuccess);
  });
}

StandInComm::Result StandInComm::finalize() {
  if (finalized_.exchange(true)) return ncclInvalidArgument;
  return begin([this] {
    Patience patience("the other ranks to finish");
    while (!stop_ && executed_ < issued_) patience.pause();
    wire_.leave();
    while (!stop_ && !wire_.all_left()) patience.pause();
    settle(stop_ ? ncclInternalError : ncclSuccess);
  });
}

void StandInComm::destroy() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void StandInComm::abort() {
  stop_ = true;
  destroy();
  const std::lock_guard no_work_runs(running_);
}

// On the stream. Work of one communicator runs in the order of its calls, on whichever streams.
void StandInComm::run(StandInWork& work) {
  Patience patience("earlier work of the communicator");
  while (!stop_ && executed_ != work.number) patience.pause();
  pause();
  const std::lock_guard lock(running_);
  if (stop_) return;
  if (execute(work)) {
    ++executed_;
    return;
  }
  if (!stop_) settle(ncclRemoteError);
  Patience until_aborted("work that has failed to be aborted");
  while (!stop_) until_aborted.pause();
}

}  // namespace dtrain::test
