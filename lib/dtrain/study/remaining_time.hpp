#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace dtrain {

/// How far a point is, for an estimate of what is left.
struct PointTime {
  int64_t ranks = 1;
  bool over = false;   ///< done or failed: nothing is left of it
  double seconds = 0;  ///< of training, so far
  double share = 0;    ///< of its epochs that are finished, 0…1
};

/// Seconds until all points are over, one after another: a point takes as long as the mean of those of the same number
/// of ranks, else of all; a point that has finished epochs counts with seconds ÷ share, unless it is over with none.
/// Nothing while no point has finished an epoch.
std::optional<double> remaining_seconds(const std::vector<PointTime>& points);

}  // namespace dtrain
