// How often 95 % intervals of calls and of calibration hold the truth, on made-up patients of which it is known.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "dtrain/base/random.hpp"
#include "dtrain/metrics/measure.hpp"
#include "support/catch.hpp"
#include "unit/metrics/test_tools.hpp"

using namespace dtrain;
using test::logistic;
using test::normal_share;

namespace {

constexpr double kIll = 0.3;        // share of patients
constexpr double kDistance = 1.5;   // of their pictures' scores, in deviations
constexpr int64_t kPatients = 100;  // with three pictures each

// Of being ill, for a score.
double true_logit(double score) { return kDistance * score - kDistance * kDistance / 2 + std::log(kIll / (1 - kIll)); }

// A score is the label's part, the patient's and the picture's, the last two as large. The probabilities are the right
// ones if `sharpness` is 1, and too sure of themselves if it is above.
Predictions patients(uint64_t seed, double sharpness, Groups& groups) {
  KeyedRandom random(seed, Purpose::synthetic_data);
  Predictions p;
  p.outputs = 1;
  groups = {{}, kPatients, "patient"};
  for (int64_t patient = 0; patient < kPatients; ++patient) {
    const bool ill = random.chance(kIll);
    const double own = random.normal();
    for (int i = 0; i < 3; ++i) {
      const double score = (ill ? kDistance : 0) + std::sqrt(0.5) * own + std::sqrt(0.5) * random.normal();
      groups.of.push_back(patient);
      p.loss.push_back(0);
      p.labels.push_back(ill ? 1.0F : 0.0F);
      p.scores.push_back(logistic(sharpness * true_logit(score)));
    }
  }
  return p;
}

// In a population without end.
std::map<std::string, double> truths_of(double sharpness) {
  const double edge = kDistance / 2 - std::log(kIll / (1 - kIll)) / kDistance;  // where the logit is 0
  const double found = normal_share(kDistance - edge);
  const double cleared = normal_share(edge);
  const double called = kIll * found + (1 - kIll) * (1 - cleared);
  std::array<double, 15> gaps{};
  double square = 0;
  constexpr int kSteps = 200'000;
  for (int i = 0; i < kSteps; ++i) {
    const double x = -8 + 18 * (i + 0.5) / kSteps;
    const auto density = [](double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0)) * 18 / kSteps; };
    const double mass = (1 - kIll) * density(x) + kIll * density(x - kDistance);
    const double truth = logistic(true_logit(x));
    const double told = logistic(sharpness * true_logit(x));
    square += mass * (truth * std::pow(1 - told, 2) + (1 - truth) * told * told);
    const double sure = std::max(told, 1 - told);
    const auto bin = static_cast<size_t>(std::clamp(std::ceil(sure * 15) - 1, 0.0, 14.0));
    gaps[bin] += mass * ((told >= 0.5 ? truth : 1 - truth) - sure);
  }
  double ece = 0;
  for (const double gap : gaps) ece += std::abs(gap);
  return {{"sensitivity_ill", found},
          {"specificity_ill", cleared},
          {"precision_ill", kIll * found / called},
          {"f1_ill", 2 * kIll * found / (kIll + called)},
          {"brier_ill", square},
          {"ece_ill", ece}};
}

}  // namespace

TEST_CASE("intervals of calls and of calibration hold the truth about as often as they say") {
  for (const double sharpness : {1.0, 2.0}) {
    const std::map<std::string, double> truths = truths_of(sharpness);
    std::map<std::string, int> held;
    constexpr int kSets = 500;
    for (uint64_t seed = 0; seed < kSets; ++seed) {
      Groups groups;
      const Predictions p = patients(seed, sharpness, groups);
      const auto values = measure(Task::multilabel, {"ill"}, p, groups);
      for (const auto& [name, truth] : truths) {
        const auto& interval = test::named(values, name).measured.confidence.interval;
        held[name] += interval && interval->low <= truth && truth <= interval->high ? 1 : 0;
      }
    }
    for (const auto& [name, count] : held) {
      INFO(name << " at sharpness " << sharpness << ": " << 100.0 * count / kSets << " %");
      CHECK(count > 0.92 * kSets);
    }
  }
}
