#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/nccl/chance.hpp"
#include "support/nccl/host_stream.hpp"
#include "support/nccl/plan.hpp"
#include "support/nccl/wire.hpp"

namespace dtrain::test {

/// One call between ncclGroupStart and ncclGroupEnd.
struct StandInOp {
  enum Kind : uint32_t { send = 1, receive, all_reduce, all_gather };
  Kind kind;
  const void* from;
  void* to;
  size_t bytes;  ///< of the message; for a gather, from each rank
  int peer;
};

/// What one ncclGroupEnd gives to a stream: runs as one piece of work.
struct StandInWork {
  HostStream* stream;
  std::vector<StandInOp> ops;
  int64_t number = 0;                    ///< of this communicator's work, from 0 on
  bool struck = false;                   ///< the plan's fault hits it
  std::vector<std::vector<char>> early;  ///< buffers as they were when the call was made
};

/// A non-blocking communicator of the tests' NCCL. A call is carried out by a thread of its own after a pause; it has
/// been carried out when its work is in the stream's queue. Work reads and writes its buffers when the stream runs it,
/// in the order of the calls, and until then nobody touches them.
class StandInComm : public std::enable_shared_from_this<StandInComm> {
 public:
  using Result = int;  ///< an ncclResult_t, a name that this header does without: it compiles where there is no nccl.h

  /// `number`: of this process's communicators.
  StandInComm(const std::string& path, int ranks, int rank, int64_t number);

  int ranks() const { return ranks_; }

  /// What ncclCommGetAsyncError says.
  Result state();
  /// Why another call is refused now, or success. As in NCCL, a refused call of work (`keep`) leaves its error behind.
  Result ready(bool keep);

  Result start();
  Result issue(StandInWork work);
  Result finalize();
  /// Waits for a call that is being carried out, and for its thread.
  void destroy();
  /// Any thread, at any time: work that runs ends, later work does nothing, and then no buffer is touched any more.
  void abort();

 private:
  void carry_out_calls();
  Result begin(std::function<void()> call);
  void pause();
  int64_t drawn(int64_t bound);
  void settle(Result result);
  void run(StandInWork& work);
  bool execute(StandInWork& work);
  bool move(std::vector<Wire::Part> sends, std::vector<Wire::Part> takes);
  bool move_messages(StandInWork& work);
  bool add_by_ring(const StandInOp& op);
  bool add_by_tree(const StandInOp& op);
  bool gather(const StandInOp& op);
  bool strike(const std::vector<Wire::Part>& sends);
  uint32_t tag(StandInOp::Kind kind) const { return kind * 2 + (ring_ ? 1 : 0); }

  Wire wire_;
  const int ranks_;
  const int rank_;
  const bool ring_;  ///< NCCL_ALGO=Ring when it started
  const StandInPlan plan_;
  std::mutex chance_mutex_;
  Chance chance_;
  std::atomic<int> state_{0};
  std::atomic<int> unseen_{0};  ///< how often state() still says in progress
  std::atomic<bool> stop_{false};
  int64_t issued_ = 0;
  std::atomic<int64_t> executed_{0};
  std::atomic<bool> finalized_{false};
  std::mutex running_;  ///< held while work touches buffers

  std::mutex mutex_;  ///< guards the two below
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
  bool leaving_ = false;
  std::thread thread_;
};

}  // namespace dtrain::test
