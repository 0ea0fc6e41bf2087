#pragma once
#include <cstdint>
#include <string>

#include "job/job_advice.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// The share of the memory that batch.per_rank: auto uses; the rest is left.
inline constexpr double kUsedByAuto = 0.9;

/// A batch for which the estimate of memory is as good as for any other.
inline constexpr int64_t kMiddlingBatch = 8;

/// The largest batch.per_rank that changes anything: with it one step of each logical rank takes the whole training
/// part. At least 1.
int64_t most_useful_batch(const Experiment& experiment, const Plan& plan);

/// job_memory() for another batch and number of logical ranks than those of `plan`, which is as before afterwards; its
/// own batch may be open.
JobMemory memory_with(const Experiment& experiment, Plan& plan, const Network& network, int64_t processes,
                      int64_t batch, int64_t logical_ranks);

/// Memory of a process as a straight line over the pictures of a pass, in megabytes (1e6 bytes), without what the
/// processes of a host have in common.
struct BatchLine {
  double fixed_mb = 0;    ///< besides pictures
  double picture_mb = 0;  ///< of each picture

  explicit BatchLine(const JobMemory& memory);
  /// The largest batch for which a process needs `room_mb` at most; 0 if not even one picture fits.
  int64_t fitting(double room_mb) const;
};

/// What the processes of a host need together, once, in megabytes: for saving, and a cache that they share.
double common_mb(const JobMemory& memory);

/// batch.per_rank: auto as far as an estimate goes: what fits into kUsedByAuto of the memory that is free on this host,
/// or of its smallest GPU, divided by the processes; at least 1, at most most_useful_batch().
int64_t estimated_batch(const Experiment& experiment, const Plan& plan, const JobMemory& memory);

/// A clause about the largest batch that fits, for a run whose own batch turns out not to: "; batch.per_rank=25 would
/// fit by the estimate of memory, and batch.per_rank=auto finds the largest that does". "" where a batch is one
/// picture.
std::string fitting_batch_advice(const Experiment& experiment, const Plan& plan, const JobMemory& memory);

/// Throws ConfigError where batch.per_rank is auto: `what` ("dtrain bench step") needs a number.
void require_batch_number(const Experiment& experiment, const std::string& what);

}  // namespace dtrain
