#include <numeric>

#include "dtrain/metrics/measure.hpp"

namespace dtrain {

double mean_loss(const Predictions& predictions) {
  const double sum = std::accumulate(predictions.loss.begin(), predictions.loss.end(), 0.0);
  return sum / static_cast<double>(predictions.samples());
}

const Metric& loss_metric() {
  static const Metric kLoss = {
      .name = "loss",
      .uses = {{Task::multilabel}, {Task::multiclass}, {Task::segmentation}},
      .larger_is_better = false,
      .of_part =
          [](const Predictions& p, bool, const Groups*) {
            return MetricValues{{mean_loss(p), {}}, {}};
          },
      .of_training = [](const TrainingCounts& counts) { return counts.mean_loss; },
  };
  return kLoss;
}

}  // namespace dtrain
