#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "dtrain/dist/communicator.hpp"
#include "dtrain/train/replica.hpp"

namespace dtrain {

/// Proof that all replicas hold the same bits: hashes of what they hold before a step's passes, compared over ranks
/// with the step's figures. BatchNorm's statistics are hashed at every step, because the step replaces them by their
/// mean and would spread a wrong one evenly, and counters, because they cost nothing; parameters and optimizer state
/// every few steps.
class ReplicaCheck {
 public:
  /// every: steps between comparisons of parameters and optimizer state; 0: as often as costs less than 0.5 % of the
  /// time, as measured on rank 0.
  ReplicaCheck(const Replica& replica, Communicator& comm, int64_t every);

  /// One number each for a rank's hashes; 0: not taken.
  struct Hashes {
    uint64_t buffers = 0;
    uint64_t weights = 0;
  };
  /// Before the passes of a step: what is hashed is as it is now.
  void look();
  /// When they are issued: a GPU then works meanwhile.
  Hashes take();
  /// All ranks, with every rank's hashes. If they differ, all throw Error with kReplicasDiffer, naming the rank that
  /// disagrees with most others, and the tensor.
  void compare(const std::vector<Hashes>& of_ranks, int64_t step);
  /// Takes and compares everything now.
  void compare_now(int64_t step);
  /// After each step: its seconds, from which all ranks agree on the interval, again each time it has passed, because
  /// the cost of a few steps on a busy machine says little.
  void step_took(double seconds);

  int64_t every() const { return every_; }                  ///< the interval now; 0: not yet agreed
  int64_t weights_taken() const { return weights_taken_; }  ///< how often the weights were hashed
  double seconds() const { return spent_.checks_s; }        ///< spent in these calls, since construction

 private:
  struct Spent {           // since construction
    double checks_s = 0;   // look(), take() and compare()
    double buffers_s = 0;  // hashing the buffers, all steps
    double weights_s = 0;  // hashing the weights, weights_taken_ times
    double steps_s = 0;    // all steps but the first
  };
  [[noreturn]] void name_difference(int64_t step);

  const Replica& replica_;
  Communicator& comm_;
  int64_t every_;
  bool automatic_;
  int64_t taken_ = 0;  // steps since construction
  int64_t next_ = 0;   // step that takes the weights, counted likewise
  int64_t weights_taken_ = 0;
  Spent spent_;
  std::optional<Replica::SeenBuffers> seen_;  // from look() to take()
  std::vector<uint32_t> buffer_hashes_;
  std::vector<uint32_t> weight_hashes_;  // empty: not taken in this step
};

}  // namespace dtrain
