#include "dtrain/study/simulate/step_model.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/study/simulate/order_statistics.hpp"

namespace dtrain {
namespace {

// Seconds from the end of backward to the end of the last sum, with latencies counted `latencies` times.
double exposed_sums(const Workload& workload, const Cluster& cluster, SumWay way, int64_t ranks, int64_t logical_ranks,
                    double latencies) {
  const double backward_s = workload.compute_s * kBackwardShare;
  const double total = workload.gradient_bytes;
  double done = 0;
  double end_s = 0;  // since the beginning of the last backward pass
  const SumCost full = sum_cost(way, cluster, ranks, logical_ranks, workload.bucket_bytes);
  for (bool first = true; total - done >= 1; first = false) {
    const double bytes = std::min(total - done, first ? workload.bucket_bytes / 4 : workload.bucket_bytes);
    const bool whole = bytes == workload.bucket_bytes;
    const SumCost cost = whole ? full : sum_cost(way, cluster, ranks, logical_ranks, bytes);
    done += bytes;
    end_s = std::max(end_s, backward_s * done / total) + latencies * cost.latency_s + cost.transfer_s;
  }
  return std::max(0.0, end_s - backward_s);
}

// Seconds that reading and loading a step's images take at least, on each rank.
double input_floor(const Workload& workload, const Cluster& cluster, int64_t ranks, int64_t logical_ranks, double k) {
  double floor_s = 0;
  if (workload.loader_images_per_s > 0) {
    double rate = workload.loader_images_per_s;
    if (cluster.cores_per_node > 0) {
      const auto of_node = static_cast<double>(std::min(ranks, cluster.ranks_per_node));
      const double cores = static_cast<double>(cluster.cores_per_node) / of_node;
      rate *= std::min(1.0, cores / workload.loader_threads);
    }
    floor_s = k * workload.batch / rate;
  }
  if (cluster.file_bytes_per_s > 0)
    floor_s = std::max(floor_s, static_cast<double>(logical_ranks) * workload.batch * workload.file_bytes_per_image /
                                    cluster.file_bytes_per_s);
  return floor_s;
}

}  // namespace

StepTime step_time(const Workload& workload, const Cluster& cluster, SumWay way, int64_t ranks, int64_t logical_ranks) {
  const int64_t most = (logical_ranks + ranks - 1) / ranks;
  const auto k = static_cast<double>(most);
  const int64_t with_k = logical_ranks % ranks == 0 ? ranks : logical_ranks % ranks;
  StepTime step;
  step.ranks = ranks;
  step.nodes = cluster.nodes(ranks);
  step.images = static_cast<double>(logical_ranks) * workload.batch;
  step.compute_s = k * workload.compute_s;
  step.fixed_s = workload.fixed_s;
  step.straggler_s = ranks > 1 ? expected_maximum(with_k) * std::sqrt(k) * workload.compute_sd_s : 0;
  if (ranks > 1) {
    const double exposed = exposed_sums(workload, cluster, way, ranks, logical_ranks, 1);
    step.transfer_s = std::min(exposed, exposed_sums(workload, cluster, way, ranks, logical_ranks, 0));
    step.latency_s = exposed - step.transfer_s;
  }
  step.input_s = std::max(0.0, input_floor(workload, cluster, ranks, logical_ranks, k) - step.seconds());
  return step;
}

double share_of(Binds what, const StepTime& step) {
  const auto seconds = [&] {
    switch (what) {
      case Binds::straggler:
        return step.straggler_s;
      case Binds::latency:
        return step.latency_s;
      case Binds::bandwidth:
        return step.transfer_s;
      case Binds::input:
        return step.input_s;
      case Binds::compute:
        break;
    }
    return step.compute_s + step.fixed_s;
  };
  return seconds() / step.seconds();
}

Binds what_binds(const StepTime& step) {
  constexpr double kWorthNaming = 0.02;
  Binds most = Binds::compute;
  double share = kWorthNaming;
  for (const Binds what : {Binds::straggler, Binds::latency, Binds::bandwidth, Binds::input})
    if (share_of(what, step) > share) {
      most = what;
      share = share_of(what, step);
    }
  return most;
}

}  // namespace dtrain
