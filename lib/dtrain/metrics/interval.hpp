#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtrain {

/// Which samples belong together: pictures of one patient resemble each other; groups are independent of each other.
struct Groups {
  std::vector<int64_t> of;  ///< the group of each sample, 0 … count-1
  int64_t count = 0;
  std::string noun;  ///< what a group is: "patient", or "sample" if each is its own, or "group" if there are both
};

/// A 95 % confidence interval, within the range of the figure (0 … 1 for most); docs/metrics.md has formula, source and
/// assumption of each method.
struct Interval {
  double low = 0;
  double high = 1;
  std::string
      method;  ///< "DeLong", "Obuchowski", "Newcombe", "Wilson", "clustered Wilson", "infinitesimal jackknife" …
};

/// How certain a figure is.
struct Confidence {
  int64_t groups = 0;  ///< that the figure rests on: those with a known label, or with pixels that count
  std::optional<Interval> interval;
  std::string no_interval;  ///< why there is none, "3 patients, fewer than 10"; "" if none was asked for
};

/// With fewer groups there is no interval. If fewer groups hold all the evidence against a figure of 1 (or, for one
/// near 0, all the evidence for it), its variance cannot be estimated either, and the interval is about as wide as that
/// of a perfect figure, or wider.
inline constexpr int64_t kLeastGroups = 10;

/// The 0.975 quantile of the normal distribution.
inline constexpr double kNormalQuantile = 1.959963984540054;

/// The 0.975 quantile of Student's t with `degrees` >= 1 degrees of freedom, to 1e-12.
double t_quantile(int64_t degrees);

/// Two-sided p values: the probability of a value at least as far from 0, for a normal variable with variance 1, and
/// for Student's with `degrees` >= 1 degrees of freedom (that to 1e-12).
double normal_p(double z);
double t_p(double t, int64_t degrees);

/// The place below which a normal variable with variance 1 lies with this probability, 0 < probability < 1, to 1e-12.
double normal_quantile(double probability);

/// How many groups of equal weight are worth as much as these: (sum of weights)² / sum of squares (Kish 1965).
double effective_number(std::span<const double> weights);

/// Degrees of freedom of a variance that is a sum over groups, each with this share of it judging by sizes: the number
/// of groups - 1 if all weigh the same, fewer if some outweigh the rest (Satterthwaite 1946); at least 1.
int64_t degrees_of(std::span<const double> shares);

/// Wilson's score interval (1927) for a share of so many independent trials, `quantile` from the normal or Student's
/// distribution; it contains `share`.
Interval wilson(double share, double trials, double quantile);

/// Symmetrical on the logit scale around `centre`, strictly within 0 … 1: centre's logit ± quantile · √variance ÷
/// (centre · (1 − centre)). `method` is left empty.
Interval logit_interval(double centre, double variance, double quantile);

/// The lowest area under the ROC curve that a perfect one of so many independent positives and negatives does not
/// contradict (Newcombe 2006, part 2, method 5, for an observed area of 1).
double newcombe_edge(int64_t positives, int64_t negatives);

/// "3 patients, fewer than 10".
std::string too_few(int64_t groups, const std::string& noun);

}  // namespace dtrain
