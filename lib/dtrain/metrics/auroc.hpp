#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtrain/metrics/interval.hpp"
#include "dtrain/metrics/paired.hpp"

namespace dtrain {

/// Area under the ROC curve of `scores` for `labels` 1 against 0: the probability that a positive sample scores higher
/// than a negative one, ties counted half (Mann–Whitney). Samples whose label is NaN (unknown) are left out. Sorted
/// once, O(n log n). Nothing when there are no positives or no negatives, or a score is NaN: undefined, never 0.5.
std::optional<double> auroc(std::span<const double> scores, std::span<const float> labels);

/// What one group adds to an AUROC.
struct AurocGroup {
  int64_t positives = 0;
  int64_t negatives = 0;
  double above = 0;  ///< sum over its positives: share of all negatives below each, ties half
  double below = 0;  ///< sum over its negatives: share of all positives above each, ties half
};

/// What the interval of an AUROC is made of.
struct AurocParts {
  double value = 0;  ///< as auroc()
  /// The area over pairs of different groups only. Pairs within one patient differ from pairs of two, and in a large
  /// population there are hardly any: with few patients they shift `value`, but never this.
  double apart = 0;
  std::vector<AurocGroup> groups;  ///< one for each group of the set
};

/// Nothing if auroc() gives nothing. O(n log n).
std::optional<AurocParts> auroc_parts(std::span<const double> scores, std::span<const float> labels,
                                      const Groups& groups);

/// Variance of an AUROC whose samples come in groups (Obuchowski, Biometrics 53:567–578, 1997); where each group is one
/// sample, that of DeLong et al. (1988). At least two groups have positives, and two negatives.
double obuchowski_variance(const AurocParts& parts);

/// Interval of the AUROC of one output, or of the mean over several of the same set: on the logit scale, by Student's t
/// (degrees_of()), around `apart`; at 0 or 1 newcombe_edge(), and at least that wide if only few groups speak against a
/// perfect area. None, with the reason, with fewer than kLeastGroups groups, if all positives or all negatives of an
/// output are in one group, or if nothing varies.
Confidence auroc_confidence(std::span<const AurocParts> outputs, const std::string& noun);

/// Two networks' areas of one output, for the same samples, labels and groups.
struct AurocPair {
  AurocParts a;
  AurocParts b;
};

/// How far the area of B is from that of A, for one output or for the mean over several of the same set. Where each
/// group is one sample, the test of DeLong et al. (1988) as published: the difference over its standard error is
/// normal. Else Obuchowski's (1997), which is the same with the groups' sums in place of the samples, by Student's t
/// (degrees_of()). No test, with the reason, where auroc_confidence() would have no interval.
PairedMeasure paired_auroc(std::span<const AurocPair> outputs, const std::string& noun);

}  // namespace dtrain
