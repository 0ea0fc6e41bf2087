#include "dtrain/study/simulate/scaling_prediction.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dtrain {

ScalingPrediction predict_scaling(const SimulatedJob& job, SumWay way, int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  const StepTime one = step_time(job.workload, job.cluster, way, 1, job.logical_ranks_of(1));
  ScalingPrediction point;
  point.step = step_time(job.workload, job.cluster, way, ranks, job.logical_ranks_of(ranks));
  point.speedup = point.step.images_per_s() / one.images_per_s();
  point.efficiency = point.speedup / n;
  if (ranks > 1) point.serial_fraction = (1 / point.speedup - 1 / n) / (1 - 1 / n);
  if (job.length.samples > 0) {
    const double steps = std::max(1.0, std::ceil(static_cast<double>(job.length.samples) / point.step.images - 1e-9));
    const double epoch_s = steps * point.step.seconds() + job.length.valid_s / n;
    point.time_to_train_s = job.length.start_s + static_cast<double>(job.length.epochs) * epoch_s;
    point.node_hours = static_cast<double>(point.step.nodes) * *point.time_to_train_s / 3600;
  }
  return point;
}

int64_t pays_until(const SimulatedJob& job, SumWay way) {
  const int64_t most = job.logical_ranks > 0 ? std::min(job.logical_ranks, kMostRanks) : kMostRanks;
  const auto rate = [&](int64_t ranks) {
    const ScalingPrediction point = predict_scaling(job, way, ranks);
    return point.time_to_train_s ? 1 / *point.time_to_train_s : point.step.images_per_s();
  };
  int64_t ranks = 1;
  double now = rate(ranks);
  while (2 * ranks <= most) {
    const double doubled = rate(2 * ranks);
    if (doubled < std::numbers::sqrt2 * now) return ranks;
    now = doubled;
    ranks *= 2;
  }
  return ranks;
}

}  // namespace dtrain
