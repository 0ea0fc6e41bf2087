#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/metrics/interval.hpp"
#include "dtrain/metrics/options.hpp"
#include "dtrain/metrics/predictions.hpp"

namespace dtrain {

/// Two networks judged on the same samples, A and B. What both find hard or easy about a sample cancels out in the
/// difference of their figures, so a paired test sees differences that two intervals beside each other hide.

/// How far a figure of B is from that of A.
struct PairedTest {
  double difference = 0;  ///< B − A
  double low = 0;         ///< 95 % interval of the difference
  double high = 0;
  double p = 1;            ///< two-sided: how likely a difference at least as large is if there is none
  bool p_at_most = false;  ///< bootstrap: no draw lies on the other side of 0, so p is this or less
  /// Of a single class: p corrected for the number of classes that this metric has a test for, by holm().
  std::optional<double> p_holm = std::nullopt;
  std::string method;                              ///< "DeLong", "Obuchowski", "bootstrap"
  std::optional<double> statistic = std::nullopt;  ///< DeLong: z; Obuchowski: t
  std::optional<int64_t> degrees = std::nullopt;   ///< Obuchowski: of freedom
};

/// A figure of both, and the test of their difference.
struct PairedMeasure {
  std::optional<double> a;  ///< nothing: undefined
  std::optional<double> b;
  int64_t groups = 0;  ///< that the figures rest on; the fewer if that depends on what was predicted (precision)
  std::optional<PairedTest> test;
  std::string no_test;  ///< why there is none; "" if there is, or if a figure is undefined
};

/// What Metric::of_pair gives; the values themselves are filled in by compare().
struct MetricPairs {
  PairedMeasure all;
  std::vector<PairedMeasure> classes;  ///< of each output, or none if they were not asked for
};

/// Both values under their name of metric_names().
struct NamedPair {
  std::string name;
  PairedMeasure paired;
  const Metric* metric = nullptr;  ///< never null
};

struct PairedOptions {
  int64_t draws = 2000;  ///< of the bootstrap, at least 100
  size_t threads = 1;    ///< changes no result
};

using Told = std::function<void(int64_t done)>;

/// Every value of the task's metrics for both, in the order of metric_names().
///
/// a, b     of the same samples in the same order, with the same labels; at least one sample
/// groups   of the samples
/// told     is called about ten times a second on this thread, with the draws that are done
/// Metrics with a test of their own (Metric::of_pair) use that. For the others whole groups are drawn with replacement,
/// the same for both, and the metric is computed for each draw: the paired cluster bootstrap, whose draws depend on
/// nothing but the number of groups. docs/metrics.md has the methods and how often their intervals are right.
std::vector<NamedPair> compare(Task task, const std::vector<std::string>& classes, const Predictions& a,
                               const Predictions& b, const Groups& groups, const PairedOptions& options = {},
                               const Told& told = nullptr, const Metrics& metrics = all_metrics());

/// The part of compare() that bootstraps: `values` of metrics without a test of their own get one.
void bootstrap_pairs(const std::vector<std::string>& classes, const Predictions& a, const Predictions& b,
                     const Groups& groups, const PairedOptions& options, const Told& told,
                     std::vector<NamedPair*>& values);

/// p values of one family, corrected so that the chance of a single false one in it stays at the level (Holm, A simple
/// sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6:65–70, 1979): the k-th smallest
/// of m times m − k + 1, at most 1, and none below a smaller one's. In the order of `p`.
std::vector<double> holm(const std::vector<double>& p);

/// Test of a difference from its bootstrapped values: percentiles, at levels widened for `groups` >= 2 groups
/// (Hesterberg 2015), and the p value for which 0 is at the interval's end. `draws` need not be sorted; at least 100.
PairedTest bootstrap_test(double difference, std::vector<double> draws, int64_t groups);

}  // namespace dtrain
