#pragma once
#include <vector>

#include "dtrain/metrics/measure.hpp"
#include "dtrain/metrics/share.hpp"

namespace dtrain {

/// A figure for masks that is a part of a whole: a ratio of pixels. An empty whole is a perfect answer.
using PixelShare = GroupShare (*)(const PixelCounts&);
double overlap(PixelShare share, const PixelCounts& counts);

/// The overlap of all pixels of the set together: of each class, and the mean over the classes, with their confidences.
MetricValues overlaps_of(const Predictions& predictions, bool each_class, const Groups* groups, PixelShare share);

/// For each class, what each group adds up to.
std::vector<std::vector<GroupShare>> pixel_shares(const Predictions& predictions, const Groups& groups,
                                                  PixelShare share);

}  // namespace dtrain
