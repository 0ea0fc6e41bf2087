#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/study/points_table.hpp"

namespace dtrain {

/// A sample's mean, standard deviation and range.
struct Spread {
  int64_t count = 0;
  std::optional<double> mean = std::nullopt;  ///< nothing of no values
  std::optional<double> sd = std::nullopt;    ///< with count − 1 in the denominator; nothing of fewer than two values
  std::optional<double> least = std::nullopt;
  std::optional<double> most = std::nullopt;
};
Spread spread_of(const std::vector<double>& values);

/// A finished run as a row of figures is made of them.
struct ScalingRun {
  std::string series = "";
  std::string device = "";
  int64_t nodes = 0;  ///< 0 = not known
  int64_t ranks = 1;
  std::optional<double> epochs_per_hour = std::nullopt;  ///< nothing where its times say nothing about so many ranks
  std::optional<double> images_per_s = std::nullopt;
  std::optional<double> time_to_train_s = std::nullopt;
  std::optional<double> metric = std::nullopt;  ///< the monitor's best value
};

/// The finished runs of one series and number of ranks: they differ in seed and fold.
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
  std::vector<size_t> members = {};                 ///< its runs, as indices of those that were given

  bool above_ideal() const { return speedup && *speedup > static_cast<double>(ranks); }
};

/// A row for each series and number of ranks, in the order in which they first come.
std::vector<ScalingRow> scaling_rows(const std::vector<ScalingRun>& runs);

/// The share e of the work on one rank that does not divide, by what was measured: S = 1 ÷ (e + (1 − e) ÷ N) solved for
/// e (Karp, Flatt, Measuring Parallel Processor Performance, Communications of the ACM 33(5), 1990). About the same for
/// all N: the program has a serial part. Growing with N: what ranks pay for each other. Below 0 above the ideal.
/// Nothing for fewer than 2 ranks. speedup > 0.
std::optional<double> serial_fraction(double speedup, int64_t ranks);

/// Up to which number of ranks more of them pay: where speed-up × efficiency, S² ÷ N, is largest, which is the knee of
/// the curve of time against efficiency (Eager, Zahorjan, Lazowska, Speedup Versus Efficiency in Parallel Systems, IEEE
/// Transactions on Computers 38(3), 1989). So twice the ranks pay if they are more than √2 times as fast. rates:
/// epochs/hour by number of ranks, each above 0. Nothing of fewer than two.
std::optional<int64_t> ranks_that_pay(const std::map<int64_t, double>& rates);

/// A row for each series and number of ranks of which a point is done, in the order of the points.
std::vector<ScalingRow> scaling_rows(const SweepPlan& plan, const std::vector<SweepRow>& points,
                                     const std::string& study);

/// scaling.csv: series, device, nodes, ranks, runs, epochs_per_hour, images_per_s, time_to_train_s, speedup,
/// efficiency, metric (its mean), metric_spread (its standard deviation).
std::string scaling_csv(const std::vector<ScalingRow>& rows);

}  // namespace dtrain
