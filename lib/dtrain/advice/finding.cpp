#include "dtrain/advice/finding.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "dtrain/base/text.hpp"

namespace dtrain {

std::vector<Finding> by_weight(std::vector<Finding> findings) {
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.weight > b.weight; });
  return findings;
}

std::string first_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  if (names.size() <= kShown) return join(names, ", ");
  return fmt::format("{} and {} more", join({names.begin(), names.begin() + kShown}, ", "), names.size() - kShown);
}

}  // namespace dtrain
