#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "dtrain/advice/finding.hpp"

namespace dtrain::test {

/// What the finding of that name says; "" if there is none.
inline std::string sentence_of(const std::vector<Finding>& findings, const std::string& name) {
  const auto found = std::ranges::find(findings, name, &Finding::name);
  return found == findings.end() ? "" : found->sentence;
}

}  // namespace dtrain::test
