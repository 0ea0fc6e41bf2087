#pragma once
#include <array>
#include <cstdint>

#include "dtrain/study/simulate/sum_cost.hpp"

namespace dtrain {

/// What one step asks of a rank, as it was measured.
struct Workload {
  double compute_s = 0;             ///< forward and backward of one logical rank's batch, mean
  double compute_sd_s = 0;          ///< its standard deviation, over steps and ranks
  double fixed_s = 0;               ///< of each step besides: the update, replica hashes, Python's or ours
  double gradient_bytes = 0;        ///< added up over ranks in a step
  double bucket_bytes = 4e6;        ///< of a bucket, above 0; the first has a quarter, as in dist/reducer
  double batch = 1;                 ///< images of a logical rank in a step
  double loader_images_per_s = 0;   ///< what a rank's loader delivers at most; 0 = no limit is known
  double loader_threads = 1;        ///< with which that was measured
  double file_bytes_per_image = 0;  ///< read from the file system
};

/// Of the time in which one batch is computed, the share of the backward pass: it has two products where the forward
/// pass has one.
inline constexpr double kBackwardShare = 2.0 / 3;

/// Where the seconds of one step go.
struct StepTime {
  int64_t ranks = 1;
  int64_t nodes = 1;
  double images = 0;     ///< of the step, over all ranks
  double compute_s = 0;  ///< of a rank that computes as the mean does
  double fixed_s = 0;
  double straggler_s = 0;  ///< more in the slowest rank, for which all others wait
  double latency_s = 0;    ///< of sums, as far as backward does not hide them
  double transfer_s = 0;   ///< of their bytes, likewise
  double input_s = 0;      ///< more that the loader, or the file system, takes than all of these

  double seconds() const { return compute_s + fixed_s + straggler_s + latency_s + transfer_s + input_s; }
  double images_per_s() const { return images / seconds(); }
};

/// One step of `ranks` processes that carry `logical_ranks` batches, as evenly as they divide.
///
/// - compute: the batches of the rank that has most, k, in turn.
/// - straggler: expected_maximum() over the ranks that have k, of √k · compute_sd_s. Independent from step to step:
///   a rank that is slow for ever is not covered by it.
/// - sums: gradient bytes become ready evenly over the backward pass of the last batch; a bucket is added up when it is
///   ready and the one before is done (sum_cost()); what ends after backward is exposed. Its transfer is what would be
///   exposed without latencies.
/// - input: each rank's loader, in proportion to its share of the node's cores if those are fewer than the threads it
///   was measured with, and the file system's rate shared by all.
///
/// One rank takes compute_s and fixed_s, as measured, unless input binds. 1 <= ranks <= logical_ranks.
StepTime step_time(const Workload& workload, const Cluster& cluster, SumWay way, int64_t ranks, int64_t logical_ranks);

/// What costs a step most beside computing.
enum class Binds { compute, straggler, latency, bandwidth, input };
template <>
inline constexpr auto kWordsOf<Binds> = std::to_array<Word<Binds>>({{Binds::compute, "compute"},
                                                                    {Binds::straggler, "straggler"},
                                                                    {Binds::latency, "latency"},
                                                                    {Binds::bandwidth, "bandwidth"},
                                                                    {Binds::input, "input"}});
/// Binds::compute where nothing else takes 2 % of the step.
Binds what_binds(const StepTime& step);
/// What that takes of the step, 0…1.
double share_of(Binds what, const StepTime& step);

}  // namespace dtrain
