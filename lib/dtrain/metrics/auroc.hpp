#pragma once
#include <optional>
#include <span>

namespace dtrain {

/// A figure with its 95 % confidence interval.
struct Interval {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// Area under the ROC curve of `scores` for `labels` 1 against 0: the probability that a positive sample scores higher
/// than a negative one, ties counted half (Mann–Whitney). Samples whose label is NaN (unknown) are left out. Sorted
/// once, O(n log n). Nothing when there are no positives or no negatives, or a score
/// is NaN: undefined, never 0.5.
/// The interval is DeLong's (DeLong et al. 1988, computed with midranks as Sun & Xu 2014), cut to [0, 1].
std::optional<Interval> auroc(std::span<const double> scores, std::span<const float> labels);

}  // namespace dtrain
