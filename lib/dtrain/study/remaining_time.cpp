#include "dtrain/study/remaining_time.hpp"

#include <algorithm>

namespace dtrain {

// The mean over points with finished epochs of how long a whole one takes; ranks 0 = any.
static std::optional<double> mean_of_whole(const std::vector<PointTime>& points, int64_t ranks) {
  double sum = 0;
  int64_t count = 0;
  for (const PointTime& point : points) {
    if (point.share <= 0 || (ranks > 0 && point.ranks != ranks)) continue;
    sum += point.seconds / point.share;
    ++count;
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

std::optional<double> remaining_seconds(const std::vector<PointTime>& points) {
  const std::optional<double> any = mean_of_whole(points, 0);
  if (!any) return std::nullopt;
  double left = 0;
  for (const PointTime& point : points) {
    if (point.over) continue;
    const double whole =
        point.share > 0 ? point.seconds / point.share : mean_of_whole(points, point.ranks).value_or(*any);
    left += std::max(0.0, whole - point.seconds);
  }
  return left;
}

}  // namespace dtrain
