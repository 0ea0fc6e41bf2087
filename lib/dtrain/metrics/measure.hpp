#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/metrics/interval.hpp"
#include "dtrain/metrics/options.hpp"
#include "dtrain/metrics/predictions.hpp"

namespace dtrain {

/// A value and how certain it is.
struct Measured {
  std::optional<double> value;  ///< nothing: undefined (a class without both labels)
  Confidence confidence;        ///< of the value; empty if no groups were given
  int64_t undefined = 0;        ///< samples (of each class) that have no value and are left out of a mean over samples
};

/// What Metric::of_part gives.
struct MetricValues {
  Measured all;                   ///< of all classes together
  std::vector<Measured> classes;  ///< of each output, or none if they were not asked for
};

/// A value under its name of metric_names(): accuracy, auroc, auroc_Mass …
struct NamedValue {
  std::string name;
  Measured measured;
  const Metric* metric = nullptr;  ///< never null; of the list that was measured
};

/// Every value of the task's metrics, in the order of metric_names(); all are undefined for a part without samples.
///
/// classes   names of the outputs
/// groups    of the samples, in their order: with them each value has its confidence, without them, as in training,
///           none is computed
/// docs/metrics.md has the formulas.
std::vector<NamedValue> measure(Task task, const std::vector<std::string>& classes, const Predictions& predictions,
                                const std::optional<Groups>& groups = std::nullopt,
                                const Metrics& metrics = all_metrics());

}  // namespace dtrain
