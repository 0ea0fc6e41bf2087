#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "dtrain/base/random.hpp"
#include "dtrain/metrics/measure.hpp"
#include "support/catch.hpp"

namespace dtrain::test {

struct ScoredLabels {
  std::vector<double> scores;
  std::vector<float> labels;  ///< NaN: unknown
};

/// 200 samples, a third of them positive, one in ten unknown; scores are twentieths, so that many are equal.
inline ScoredLabels tied_scores(uint64_t seed) {
  KeyedRandom random(seed, Purpose::synthetic_data);
  ScoredLabels drawn;
  for (int i = 0; i < 200; ++i) {
    drawn.scores.push_back(static_cast<double>(random.below(20)) / 20);
    drawn.labels.push_back(i % 2 == 1 && random.chance(0.2) ? std::nanf("") : random.chance(0.3) ? 1.0F : 0.0F);
  }
  return drawn;
}

inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// Of a normal number to be at most x.
inline double normal_share(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

/// Each of n samples is a patient of its own.
inline Groups singles(size_t n) {
  Groups groups{std::vector<int64_t>(n), static_cast<int64_t>(n), "patient"};
  std::iota(groups.of.begin(), groups.of.end(), 0);
  return groups;
}

/// The value of that name; fails the test when there is none.
inline const NamedValue& named(const std::vector<NamedValue>& values, const std::string& name) {
  const auto found = std::ranges::find(values, name, &NamedValue::name);
  INFO("the value " << name);
  REQUIRE(found != values.end());
  return *found;
}

}  // namespace dtrain::test
