#pragma once
#include <cstdint>
#include <string>

namespace dtrain::test {

/// How the tests' NCCL behaves: the variable DTRAIN_STAND_IN_NCCL, as in "seed=7,pause_us=500,fault=kill,rank=1,at=3",
/// read whenever a communicator starts.
struct StandInPlan {
  uint64_t seed = 1;     ///< of pauses, and of how often a call says ncclInProgress
  int64_t pause_us = 0;  ///< longest pause before work is issued, and before it runs
  std::string fault;     ///< of rank `rank`, at the work number `at` (the first is 1) of each of its communicators:
                         ///< kill: the process dies with half of a group sent. stop: it is stopped there
                         ///< error: ncclCommGetAsyncError says ncclRemoteError, and the work is never done
                         ///< start: none of its communicators ever starts
  int rank = 0;
  int64_t at = 1;
  bool deaths_show = false;  ///< deaths=show: when a peer's process is gone, work ends with ncclRemoteError, as over
                             ///< sockets; otherwise nothing tells, as over NVLink
  std::string plant;         ///< a fault that the checks must find. fifo: of two messages to one peer the second goes
                             ///< first. early: a buffer is read when the call is made. order: a ring that is none
};

/// Throws std::invalid_argument on a word that it does not know.
StandInPlan read_stand_in_plan();

}  // namespace dtrain::test
