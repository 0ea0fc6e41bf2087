#include "dtrain/dist/bucket_cost.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "dtrain/base/time.hpp"
#include "dtrain/dist/collectives.hpp"

namespace dtrain {

double best_bucket_mb(const BucketCost& cost, int64_t bytes) {
  return std::clamp(std::sqrt(cost.latency_s * static_cast<double>(bytes) / cost.seconds_per_byte) / 1e6, 1.0, 32.0);
}

// The driver's own wait would never return from a sum whose peer is gone, so this polls, and asks the transport in
// between whether it has failed or takes too long.
void wait_for_sums(const SideStream& side, Communicator& comm) {
  constexpr int kBusyLooks = 1000;  // each asks the driver
  for (int looks = 0; !side.idle(); ++looks) {
    comm.require_healthy();
    if (looks < kBusyLooks)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

static double least_seconds(BucketSum& sum, Communicator& comm, const SideStream& side, Range range) {
  double least = 1e9;
  for (int i = 0; i < 5; ++i) {
    const Stopwatch watch;
    sum.sum(range);
    wait_for_sums(side, comm);
    least = std::min(least, watch.seconds());
  }
  return least;
}

BucketCost measure_bucket_cost(BucketSum& sum, Communicator& comm, const SideStream& side, int64_t logical_ranks) {
  SideStream::Scope scope;
  side.enter(side.mark(), scope);
  sum.begin(CanonicalTree(std::vector<bool>(static_cast<size_t>(logical_ranks), true)));
  const int64_t small = std::min<int64_t>(sum.numel(), 16 * 1024);
  const int64_t large = std::min<int64_t>(sum.numel(), 1024 * 1024);
  constexpr double kHandOver = 20e-6;  // waking the reducer's thread
  const double small_s = least_seconds(sum, comm, side, {0, small});
  const double large_s = least_seconds(sum, comm, side, {0, large});
  const double per_float = large > small ? (large_s - small_s) / static_cast<double>(large - small) : 0;
  // Through device memory: the communicator may be able to send no other.
  at::Tensor line =
      at::tensor({kHandOver + small_s, std::max(per_float / 4, 1e-12)}, at::kDouble).to(sum.buffer(0).device());
  broadcast(comm, line);
  wait_for_sums(side, comm);
  line = line.cpu();
  return {line[0].item<double>(), line[1].item<double>(), 0};
}

}  // namespace dtrain
