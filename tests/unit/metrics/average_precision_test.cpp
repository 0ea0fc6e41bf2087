#include <algorithm>
#include <cmath>
#include <functional>

#include "dtrain/base/random.hpp"
#include "dtrain/metrics/measure.hpp"
#include "support/catch.hpp"
#include "unit/metrics/test_tools.hpp"

using namespace dtrain;

namespace {

Predictions one_output(const std::vector<double>& scores, const std::vector<float>& labels) {
  Predictions p;
  p.outputs = 1;
  p.loss.assign(scores.size(), 0);
  p.scores = scores;
  p.labels = labels;
  return p;
}

Measured average_precision_of_one(const Predictions& p, const std::optional<Groups>& groups = std::nullopt) {
  return test::named(measure(Task::multilabel, {"Mass"}, p, groups), "average_precision_Mass").measured;
}

// scikit-learn's definition, a threshold at each score: sum of (recall - recall before) x precision.
double by_thresholds(const std::vector<double>& scores, const std::vector<float>& labels) {
  std::vector<double> thresholds = scores;
  std::sort(thresholds.begin(), thresholds.end(), std::greater<>());
  const auto all = static_cast<double>(std::count(labels.begin(), labels.end(), 1.0F));
  double sum = 0, recall_before = 0;
  for (const double threshold : thresholds) {
    double found = 0, taken = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (scores[i] < threshold || std::isnan(labels[i])) continue;
      taken += 1;
      found += labels[i] == 1 ? 1 : 0;
    }
    if (taken == 0) continue;
    sum += (found / all - recall_before) * found / taken;
    recall_before = found / all;
  }
  return sum;
}

// Where each sample counts with its weight; no two scores are equal.
double weighted_precision(const std::vector<double>& scores, const std::vector<float>& labels,
                          const std::vector<double>& weights) {
  double sum = 0, all = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (labels[i] == 0) continue;
    double found = 0, taken = 0;
    for (size_t j = 0; j < scores.size(); ++j) {
      if (scores[j] < scores[i]) continue;
      taken += weights[j];
      found += labels[j] == 1 ? weights[j] : 0;
    }
    sum += weights[i] * found / taken;
    all += weights[i];
  }
  return sum / all;
}

// 60 patients with five pictures each: a score is the label's part, the patient's and the picture's.
struct PatientScores {
  Predictions predictions;
  Groups groups;
};

PatientScores patient_scores(uint64_t seed, double distance, double positive) {
  KeyedRandom random(seed, Purpose::synthetic_data);
  PatientScores set{{}, {{}, 60, "patient"}};
  std::vector<double> scores;
  std::vector<float> labels;
  for (int64_t patient = 0; patient < 60; ++patient) {
    const bool ill = random.chance(positive);
    const double own = random.normal();
    for (int i = 0; i < 5; ++i) {
      set.groups.of.push_back(patient);
      labels.push_back(ill ? 1.0F : 0.0F);
      scores.push_back((ill ? distance : 0) + std::sqrt(0.5) * own + std::sqrt(0.5) * random.normal());
    }
  }
  set.predictions = one_output(scores, labels);
  return set;
}

// The area in a population without end, scores normally distributed with deviation 1 around 0 and `distance`.
double true_average_precision(double distance, double positive) {
  const auto above = [](double x) { return 0.5 * std::erfc(x / std::sqrt(2.0)); };
  constexpr int kSteps = 20'000;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double x = -8 + 16 * (i + 0.5) / kSteps;  // the positive's own part
    const double found = positive * above(x), wrong = (1 - positive) * above(x + distance);
    sum += std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0)) * 16 / kSteps * found / (found + wrong);
  }
  return sum;
}

}  // namespace

TEST_CASE("average precision of four samples is that in scikit-learn's manual") {
  CHECK(average_precision_of_one(one_output({0.1, 0.4, 0.35, 0.8}, {0, 0, 1, 1})).value.value() == Approx(5.0 / 6));
}

TEST_CASE("average precision equals the sum over thresholds, with many ties and unknown labels") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto [scores, labels] = test::tied_scores(seed);
    INFO("seed " << seed);
    CHECK(average_precision_of_one(one_output(scores, labels)).value.value() ==
          Approx(by_thresholds(scores, labels)).epsilon(1e-12));
  }
}

TEST_CASE("average precision needs a positive, and no negative") {
  CHECK_FALSE(average_precision_of_one(one_output({0.1, 0.2}, {0, 0})).value);
  CHECK_FALSE(average_precision_of_one(one_output({0.1, 0.2}, {std::nanf(""), 0})).value);
  CHECK_FALSE(average_precision_of_one(one_output({0.1, std::nan("")}, {1, 0})).value);
  CHECK(average_precision_of_one(one_output({0.1, 0.2}, {1, 1})).value == 1);
  CHECK(average_precision_of_one(one_output({0.5, 0.5, 0.5, 0.5}, {1, 0, 0, 0})).value ==
        0.25);  // the share of positives
}

TEST_CASE("an average precision has no interval where too few patients tell how much it varies") {
  const auto reason = [](const std::vector<double>& scores, const std::vector<float>& labels, int64_t count,
                         const std::string& noun = "patient") {
    Groups groups{{}, count, noun};
    for (size_t i = 0; i < scores.size(); ++i) groups.of.push_back(static_cast<int64_t>(i) % count);
    const Measured measured = average_precision_of_one(one_output(scores, labels), groups);
    CHECK_FALSE(measured.confidence.interval);
    return measured.confidence.no_interval;
  };
  std::vector<double> scores;
  std::vector<float> labels;
  for (int i = 0; i < 24; ++i) {
    scores.push_back(i);
    labels.push_back(i >= 12 ? 1.0F : 0.0F);
  }
  CHECK(reason(scores, labels, 9) == "9 patients, fewer than 10");
  CHECK(reason(scores, labels, 24) == "samples out of order are in 0 patients, fewer than 10");
  CHECK(reason(scores, labels, 24, "sample") == "out of order are 0 samples, fewer than 10");
  std::fill(labels.begin(), labels.end(), 0.0F);
  labels[3] = 1;
  CHECK(reason(scores, labels, 24) == "all positives are in one patient");
}

TEST_CASE("the interval of an average precision has the width that leaving out each patient gives") {
  const PatientScores set = patient_scores(3, 1, 0.4);
  const Measured measured = average_precision_of_one(set.predictions, set.groups);
  REQUIRE(measured.confidence.interval);
  CHECK(measured.confidence.interval->method == "infinitesimal jackknife");
  CHECK(measured.confidence.groups == 60);
  double sum = 0, squares = 0;
  for (int64_t patient = 0; patient < 60; ++patient) {
    std::vector<double> scores;
    std::vector<float> labels;
    for (size_t i = 0; i < set.groups.of.size(); ++i) {
      if (set.groups.of[i] == patient) continue;
      scores.push_back(set.predictions.scores[i]);
      labels.push_back(set.predictions.labels[i]);
    }
    const double without = average_precision_of_one(one_output(scores, labels)).value.value();
    sum += without;
    squares += without * without;
  }
  const double jackknife = std::sqrt(59.0 / 60 * (squares - sum * sum / 60));
  const auto logit = [](double x) { return std::log(x / (1 - x)); };
  const Interval& interval = *measured.confidence.interval;
  const double value = *measured.value;
  const double deviation = (logit(interval.high) - logit(interval.low)) / 2 * value * (1 - value);
  CHECK(deviation / jackknife > 1.7);  // around Student's t with up to 59 degrees of freedom
  CHECK(deviation / jackknife < 2.3);
}

TEST_CASE("an average precision's variance is n / (n - 1) times the squared slopes over the weights of n patients") {
  constexpr int64_t kPatients = 20;  // each with one positive and one negative: 19 degrees of freedom
  KeyedRandom random(4, Purpose::synthetic_data);
  Groups groups{{}, kPatients, "patient"};
  std::vector<double> scores;
  std::vector<float> labels;
  for (int64_t i = 0; i < 2 * kPatients; ++i) {
    groups.of.push_back(i / 2);
    labels.push_back(i % 2 == 0 ? 1.0F : 0.0F);
    scores.push_back((i % 2 == 0 ? 0.5 : 0) + random.normal());
  }
  const auto slope = [&](int64_t patient) {
    constexpr double kStep = 1e-5;
    const auto with = [&](double weight) {
      std::vector<double> weights(scores.size(), 1);
      for (size_t i = 0; i < weights.size(); ++i)
        if (groups.of[i] == patient) weights[i] = weight;
      return weighted_precision(scores, labels, weights);
    };
    return (with(1 + kStep) - with(1 - kStep)) / (2 * kStep);
  };
  double squares = 0;
  for (int64_t patient = 0; patient < kPatients; ++patient) squares += std::pow(slope(patient), 2);
  const Measured measured = average_precision_of_one(one_output(scores, labels), groups);
  REQUIRE(measured.confidence.interval);
  const Interval wanted = logit_interval(measured.value.value(), squares * 20 / 19, t_quantile(19));
  CHECK(measured.confidence.interval->low == Approx(wanted.low).epsilon(1e-6));
  CHECK(measured.confidence.interval->high == Approx(wanted.high).epsilon(1e-6));
}

TEST_CASE("intervals of average precisions hold the truth about as often as they say") {
  for (const double positive : {0.5, 0.2}) {
    const double truth = true_average_precision(1, positive);
    int held = 0, all = 0;
    for (uint64_t seed = 0; seed < 400; ++seed) {
      const PatientScores set = patient_scores(seed, 1, positive);
      const Confidence confidence = average_precision_of_one(set.predictions, set.groups).confidence;
      if (!confidence.interval) continue;
      ++all;
      held += confidence.interval->low <= truth && truth <= confidence.interval->high ? 1 : 0;
    }
    INFO(positive << " ill: " << held << " of " << all);
    CHECK(all > 390);
    CHECK(held > 0.91 * all);
    CHECK(held < 0.99 * all);
  }
}
