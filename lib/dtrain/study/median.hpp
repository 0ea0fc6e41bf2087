#pragma once
#include <algorithm>
#include <optional>
#include <vector>

namespace dtrain {

/// The middle one, or the mean of the two in the middle; nothing of no values. None is NaN.
inline std::optional<double> median_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

}  // namespace dtrain
