#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/study/points_table.hpp"

namespace dtrain {

/// Mean and standard deviation of a sample.
struct Spread {
  int64_t count = 0;
  std::optional<double> mean = std::nullopt;  ///< nothing of no values
  std::optional<double> sd = std::nullopt;    ///< with count − 1 in the denominator; nothing of fewer than two values
};
Spread spread_of(const std::vector<double>& values);

/// The finished points of one series and number of ranks: they differ in seed and fold.
struct ScalingRow {
  std::string series = "";  ///< series_of(), or the name of the study
  std::string device = "";
  int64_t nodes = 0;  ///< 0 = not known
  int64_t ranks = 1;
  int64_t runs = 0;
  std::optional<double> epochs_per_hour =
      std::nullopt;  ///< means over the runs; nothing where a run has none, or was not timed
  std::optional<double> images_per_s = std::nullopt;
  std::optional<double> time_to_train_s = std::nullopt;
  std::optional<double> speedup = std::nullopt;     ///< epochs/hour ÷ epochs/hour of the series at 1 rank
  std::optional<double> efficiency = std::nullopt;  ///< speed-up ÷ ranks
  Spread metric = {};                               ///< of the best values of the monitor
};

/// A row for each series and number of ranks of which a point is done, in the order of the points.
std::vector<ScalingRow> scaling_rows(const SweepPlan& plan, const std::vector<SweepRow>& points,
                                     const std::string& study);

/// scaling.csv: series, device, nodes, ranks, runs, epochs_per_hour, images_per_s, time_to_train_s, speedup,
/// efficiency, metric (its mean), metric_spread (its standard deviation).
std::string scaling_csv(const std::vector<ScalingRow>& rows);

}  // namespace dtrain
