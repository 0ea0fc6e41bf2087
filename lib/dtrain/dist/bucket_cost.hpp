#pragma once
#include <cstdint>

#include "dtrain/device/side_stream.hpp"
#include "dtrain/dist/bucket_sum.hpp"

namespace dtrain {

/// What adding up one bucket costs: seconds = latency_s + bytes × seconds_per_byte, and the bucket size that follows.
struct BucketCost {
  double latency_s = 0;  ///< 0: not measured
  double seconds_per_byte = 0;
  double bucket_mb = 0;  ///< 1e6 bytes
};

/// The size that costs least for `bytes` of gradients: each bucket pays the latency, and the last one, which backward
/// cannot hide, its own transfer: √(latency · bytes ÷ seconds_per_byte), between 1 and 32 MB.
double best_bucket_mb(const BucketCost& cost, int64_t bytes);

/// Measures sums of zeros of two sizes over `comm`, whose ranks call it together, and fits a line through the two
/// times; without a bucket size. All have rank 0's line.
BucketCost measure_bucket_cost(BucketSum& sum, Communicator& comm, const SideStream& side, int64_t logical_ranks);

/// Waits until the device has done all that was issued to the side stream. Throws what Communicator::require_healthy()
/// throws, CommError mostly, when the sums will not come to an end.
void wait_for_sums(const SideStream& side, Communicator& comm);

}  // namespace dtrain
