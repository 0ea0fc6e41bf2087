// Figures of calls, curves and probabilities. Constants are scikit-learn's 1.9 and SciPy's 1.17 on the two sets below,
// made in Python by the same formulas: confusion_matrix, precision_recall_fscore_support, balanced_accuracy_score,
// brier_score_loss, roc_curve, precision_recall_curve, average_precision_score, log_loss and brentq (the root of the
// log loss's slope); the calibration error is a loop over numpy.linspace(0, 1, 16), as in the code of Guo et al.
#include <array>
#include <cmath>
#include <limits>

#include "dtrain/base/random.hpp"
#include "dtrain/metrics/confusion.hpp"
#include "dtrain/metrics/curve.hpp"
#include "dtrain/metrics/measure.hpp"
#include "dtrain/metrics/temperature.hpp"
#include "dtrain/metrics/threshold_rule.hpp"
#include "support/catch.hpp"
#include "unit/metrics/test_tools.hpp"

using namespace dtrain;
using test::named;

namespace {

constexpr int64_t kSamples = 60;

// Three classes; logits are thirds from -8/3 to 25/6.
Predictions three_classes(double temperature = 1) {
  Predictions p;
  p.task = Task::multiclass;
  p.outputs = 3;
  p.loss.assign(kSamples, 0);
  for (int64_t i = 0; i < kSamples; ++i) {
    std::array<double, 3> weights{};
    double sum = 0;
    for (int64_t k = 0; k < 3; ++k) {
      const bool right = (i * i + i / 4) % 3 == k;
      const double logit = static_cast<double>((i * 7 + k * 13 + i * i * k) % 17 - 8) / 3 + (right ? 1.5 : 0);
      p.logits.push_back(logit);
      p.labels.push_back(right ? 1 : 0);
      sum += weights[static_cast<size_t>(k)] = std::exp(logit / temperature);
    }
    for (const double weight : weights) p.scores.push_back(weight / sum);
  }
  return p;
}

// Two labels, one in eleven unknown; scores take few values, so that many are equal.
Predictions two_labels() {
  Predictions p;
  p.outputs = 2;
  p.loss.assign(kSamples, 0);
  for (int64_t i = 0; i < kSamples; ++i)
    for (int64_t k = 0; k < 2; ++k) {
      const bool positive = (i * i + 3 * k * i + i / 5) % 7 < 3;
      const double logit = static_cast<double>((i * 5 + k * 7 + i * i) % 13 - 6) / 2 + (positive ? 1 : 0);
      p.logits.push_back(logit);
      p.scores.push_back(1 / (1 + std::exp(-logit)));
      p.labels.push_back((i + k) % 11 == 0 ? std::nanf("") : positive ? 1.0F : 0.0F);
    }
  return p;
}

void check_value(const std::vector<NamedValue>& values, const std::string& name, double wanted) {
  INFO(name);
  CHECK(std::abs(named(values, name).measured.value.value() - wanted) < 1e-9);
}

struct Point {
  double threshold, tpr, fpr;
};

// Every one of `wanted` is a point of the curve.
void check_holds(const Curve& curve, const std::vector<Point>& wanted) {
  for (const Point& point : wanted) {
    INFO("threshold " << point.threshold);
    const auto found = std::find_if(curve.points.begin(), curve.points.end(), [&](const CurvePoint& one) {
      return one.threshold == point.threshold || std::abs(one.threshold - point.threshold) < 1e-12;
    });
    REQUIRE(found != curve.points.end());
    CHECK(std::abs(static_cast<double>(found->true_positives) / static_cast<double>(curve.positives) - point.tpr) <
          1e-12);
    CHECK(std::abs(static_cast<double>(found->false_positives) / static_cast<double>(curve.negatives) - point.fpr) <
          1e-12);
  }
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("of three classes: confusion matrix, sensitivity, specificity, precision and F1 are scikit-learn's") {
  const Predictions p = three_classes();
  CHECK(confusion_matrix(p) == std::vector<int64_t>{11, 8, 6, 2, 8, 5, 10, 0, 10});
  const auto values = measure(Task::multiclass, {"a", "b", "c"}, p);
  check_value(values, "sensitivity_a", 0.44);
  check_value(values, "sensitivity_b", 0.5333333333333333);
  check_value(values, "sensitivity_c", 0.5);
  check_value(values, "sensitivity", 0.4911111111111111);
  check_value(values, "specificity_a", 0.6571428571428571);
  check_value(values, "specificity_b", 0.8222222222222222);
  check_value(values, "specificity_c", 0.725);
  check_value(values, "specificity", 0.7347883597883599);
  check_value(values, "precision_a", 0.4782608695652174);
  check_value(values, "precision_b", 0.5);
  check_value(values, "precision_c", 0.47619047619047616);
  check_value(values, "precision", 0.48481711525189786);
  check_value(values, "f1_a", 0.4583333333333333);
  check_value(values, "f1_b", 0.5161290322580645);
  check_value(values, "f1_c", 0.4878048780487805);
  check_value(values, "f1", 0.4874224145467261);
}

TEST_CASE("of two labels: calls at one half, unknown labels left out, are scikit-learn's") {
  const auto values = measure(Task::multilabel, {"a", "b"}, two_labels());
  check_value(values, "sensitivity_a", 0.6153846153846154);
  check_value(values, "specificity_a", 0.2857142857142857);
  check_value(values, "precision_a", 0.4444444444444444);
  check_value(values, "f1_a", 0.5161290322580645);
  check_value(values, "average_precision_a", 0.6847182917417031);
  check_value(values, "sensitivity_b", 0.5172413793103449);
  check_value(values, "specificity_b", 0.6923076923076923);
  check_value(values, "precision_b", 0.6521739130434783);
  check_value(values, "f1_b", 0.5769230769230769);
  check_value(values, "average_precision_b", 0.7058994155142302);
  check_value(values, "f1", (0.5161290322580645 + 0.5769230769230769) / 2);
}

TEST_CASE("Brier scores and calibration errors are those of scikit-learn and of a loop in NumPy") {
  const auto classes = measure(Task::multiclass, {"a", "b", "c"}, three_classes());
  check_value(classes, "brier", 0.7098916371831533);
  check_value(classes, "ece", 0.4094472425729974);
  const auto labels = measure(Task::multilabel, {"a", "b"}, two_labels());
  check_value(labels, "brier_a", 0.3387452787117623);
  check_value(labels, "brier_b", 0.27669406994895424);
  check_value(labels, "brier", (0.3387452787117623 + 0.27669406994895424) / 2);
  check_value(labels, "ece_a", 0.4215674231648556);
  check_value(labels, "ece_b", 0.21901804361074492);
  check_value(labels, "ece", (0.4215674231648556 + 0.21901804361074492) / 2);
}

TEST_CASE("a label with a score that is no number has no calibration error, and the mean is that of the others") {
  Predictions p = two_labels();
  p.scores[2] = std::nan("");
  const auto labels = measure(Task::multilabel, {"a", "b"}, p);
  CHECK_FALSE(named(labels, "ece_a").measured.value);
  check_value(labels, "ece", 0.21901804361074492);
  Predictions classes = three_classes();
  classes.scores[0] = classes.scores[1] = classes.scores[2] = std::nan("");
  CHECK_FALSE(named(measure(Task::multiclass, {"a", "b", "c"}, classes), "ece").measured.value);
}

TEST_CASE("of two classes the Brier score is that of one of them") {
  Predictions p;
  p.task = Task::multiclass;
  p.outputs = 2;
  p.loss = {0, 0};
  p.scores = {0.25, 0.75, 0.5, 0.5};
  p.labels = {1, 0, 0, 1};
  CHECK(named(measure(Task::multiclass, {"a", "b"}, p), "brier").measured.value == (0.5625 + 0.25) / 2);
}

TEST_CASE("a curve has every point of scikit-learn's") {
  const Predictions p = two_labels();
  const Curve a = curve_of(p, 0);
  CHECK(a.positives == 26);
  CHECK(a.negatives == 28);
  check_holds(a, {{kInfinity, 0, 0},
                  {0.9706877692486436, 0.15384615384615385, 0},
                  {0.9525741268224334, 0.23076923076923078, 0},
                  {0.9241418199787566, 0.38461538461538464, 0.14285714285714285},
                  {0.8807970779778823, 0.38461538461538464, 0.25},
                  {0.8175744761936437, 0.5, 0.35714285714285715},
                  {0.7310585786300049, 0.6153846153846154, 0.35714285714285715},
                  {0.6224593312018546, 0.6153846153846154, 0.5},
                  {0.5, 0.6153846153846154, 0.7142857142857143},
                  {0.18242552380635635, 0.8461538461538461, 0.7142857142857143},
                  {0.11920292202211755, 1, 0.7142857142857143},
                  {0.04742587317756678, 1, 1}});
  check_holds(curve_of(p, 1), {{kInfinity, 0, 0},
                               {0.8807970779778823, 0.10344827586206896, 0},
                               {0.8175744761936437, 0.27586206896551724, 0},
                               {0.7310585786300049, 0.27586206896551724, 0.19230769230769232},
                               {0.6224593312018546, 0.41379310344827586, 0.3076923076923077},
                               {0.5, 0.5172413793103449, 0.3076923076923077},
                               {0.3775406687981454, 0.6551724137931034, 0.5384615384615384},
                               {0.2689414213699951, 0.6551724137931034, 0.5769230769230769},
                               {0.18242552380635635, 0.8275862068965517, 0.7307692307692307},
                               {0.11920292202211755, 1, 0.7307692307692307},
                               {0.07585818002124355, 1, 0.8076923076923077},
                               {0.04742587317756678, 1, 1}});
}

TEST_CASE("of level pieces a curve keeps the ends, the best score, and what lies not halfway") {
  Predictions p;
  p.outputs = 1;
  p.scores = {0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.4, 0.3};  // as roc_curve has them
  p.labels = {0, 0, 0, 1, 0, 0, 0, 0};
  p.loss.assign(8, 0);
  std::vector<double> thresholds;
  for (const CurvePoint& point : curve_of(p, 0).points) thresholds.push_back(point.threshold);
  CHECK(thresholds == std::vector<double>{kInfinity, 0.9, 0.7, 0.6, 0.5, 0.3});
}

TEST_CASE("the points that a curve leaves out change neither its area nor its average precision") {
  KeyedRandom random(11, Purpose::synthetic_data);
  Predictions p;
  p.outputs = 1;
  for (int i = 0; i < 5000; ++i) {
    const bool positive = random.chance(0.05);
    p.loss.push_back(0);
    p.labels.push_back(positive ? 1.0F : 0.0F);
    p.scores.push_back(1 / (1 + std::exp(-random.normal() - (positive ? 1 : 0))));
  }
  const Curve curve = curve_of(p, 0);
  CHECK(static_cast<int64_t>(curve.points.size()) <= 2 * curve.positives + 3);
  double area = 0, precision = 0;
  for (size_t i = 1; i < curve.points.size(); ++i) {
    const CurvePoint& before = curve.points[i - 1];
    const CurvePoint& point = curve.points[i];
    const auto found = static_cast<double>(point.true_positives);
    area += static_cast<double>(point.false_positives - before.false_positives) *
            static_cast<double>(point.true_positives + before.true_positives) / 2;
    precision += static_cast<double>(point.true_positives - before.true_positives) * found /
                 static_cast<double>(point.true_positives + point.false_positives);
  }
  const auto values = measure(Task::multilabel, {"a"}, p);
  check_value(values, "auroc_a", area / static_cast<double>(curve.positives * curve.negatives));
  check_value(values, "average_precision_a", precision / static_cast<double>(curve.positives));
}

TEST_CASE("a curve without known labels, or with a score that is not a number, has no points") {
  Predictions p = two_labels();
  p.scores[2] = std::nan("");
  CHECK(curve_of(p, 0).points.empty());
  CHECK_FALSE(curve_of(p, 1).points.empty());
  for (size_t i = 1; i < p.labels.size(); i += 2) p.labels[i] = std::nanf("");
  CHECK(curve_of(p, 1).points.empty());
  CHECK_FALSE(threshold_by({}, curve_of(p, 1)));
}

TEST_CASE("thresholds are chosen as scikit-learn's ROC points have them, and called from there on") {
  Predictions p = two_labels();
  const ThresholdRule nine_tenths = ThresholdRule::of("sensitivity=0.9").value();
  CHECK(threshold_by({}, curve_of(p, 0)).value() == Approx(0.11920292202211755).epsilon(1e-12));
  CHECK(threshold_by({}, curve_of(p, 1)).value() == Approx(0.8175744761936437).epsilon(1e-12));
  for (const size_t k : {size_t{0}, size_t{1}}) {
    const double threshold = threshold_by(nine_tenths, curve_of(p, k)).value();
    CHECK(threshold == Approx(0.11920292202211755).epsilon(1e-12));
    p.thresholds.push_back(threshold);
  }
  const auto values = measure(Task::multilabel, {"a", "b"}, p);
  check_value(values, "sensitivity_a", 1);
  check_value(values, "specificity_a", 1 - 0.7142857142857143);
  check_value(values, "specificity_b", 1 - 0.7307692307692307);
}

TEST_CASE("a threshold needs positives, Youden's negatives too, and rules are read or refused") {
  Curve curve{3, 0, {{kInfinity, 0, 0}, {0.75, 1, 0}, {0.5, 3, 0}}};
  CHECK_FALSE(threshold_by({}, curve));
  CHECK(threshold_by(ThresholdRule::of("sensitivity=0.3").value(), curve) == 0.75);
  CHECK(threshold_by(ThresholdRule::of("sensitivity=1").value(), curve) == 0.5);
  curve = {0, 3, {{kInfinity, 0, 0}, {0.5, 0, 3}}};
  CHECK_FALSE(threshold_by(ThresholdRule::of("sensitivity=1").value(), curve));
  for (const char* wrong : {"", "yuden", "sensitivity", "sensitivity=", "sensitivity=0", "sensitivity=1.5",
                            "sensitivity=nan", "sensitivity=0.5x", "specificity=0.9"})
    CHECK_FALSE(ThresholdRule::of(wrong));
}

TEST_CASE("the temperature is where SciPy finds the slope of the log loss to be 0") {
  CHECK(fitted_temperature(three_classes()).value() == Approx(2.659034354341391).epsilon(1e-9));
  CHECK(fitted_temperature(two_labels()).value() == Approx(4.54242276269378).epsilon(1e-9));
  CHECK(mean_log_loss(three_classes(), 1) == Approx(1.1776214986865883).epsilon(1e-9));
  CHECK(mean_log_loss(three_classes(), 2.659034354341391) == Approx(0.991065460170586).epsilon(1e-9));
  CHECK(mean_log_loss(two_labels(), 1) == Approx(0.856989731139259).epsilon(1e-9));
  CHECK(mean_log_loss(two_labels(), 4.54242276269378) == Approx(0.6734604666060799).epsilon(1e-9));
}

TEST_CASE("a temperature changes no call of a class, and no order of a label") {
  const auto before = measure(Task::multiclass, {"a", "b", "c"}, three_classes());
  const auto after = measure(Task::multiclass, {"a", "b", "c"}, three_classes(2.659034354341391));
  CHECK(confusion_matrix(three_classes(2.659034354341391)) == confusion_matrix(three_classes()));
  CHECK(*named(after, "ece").measured.value < *named(before, "ece").measured.value);
  CHECK(*named(after, "brier").measured.value < *named(before, "brier").measured.value);
}

TEST_CASE("there is no temperature where all is right, all is wrong, or nothing is known") {
  Predictions p;
  p.outputs = 1;
  p.loss = {0, 0};
  p.logits = {1, -2};
  p.labels = {1, 0};
  CHECK_FALSE(fitted_temperature(p));
  p.labels = {0, 1};
  CHECK_FALSE(fitted_temperature(p));
  p.labels = {std::nanf(""), std::nanf("")};
  CHECK_FALSE(fitted_temperature(p));
  CHECK_FALSE(fitted_temperature(Predictions()));
}

TEST_CASE("figures of calls that have nothing to divide by are undefined, and left out of the mean") {
  Predictions p;
  p.outputs = 2;
  p.loss = {0, 0};
  p.scores = {0.1, 0.9, 0.2, 0.8};
  p.labels = {0, 1, 0, 0};
  const auto values = measure(Task::multilabel, {"a", "b"}, p);
  for (const char* name : {"sensitivity_a", "precision_a", "f1_a"}) {
    INFO(name);
    CHECK_FALSE(named(values, name).measured.value);
    CHECK_FALSE(named(values, name).metric->undefined.empty());
  }
  CHECK(named(values, "specificity_a").measured.value == 1);
  CHECK(named(values, "sensitivity").measured.value == 1);
  CHECK(named(values, "precision").measured.value == 0.5);
}

TEST_CASE("each sample a group: Wilson's interval for one class, never narrower by patient") {
  const Predictions p = three_classes();
  Groups samples{{}, kSamples, "sample"};
  Groups patients{{}, kSamples / 3, "patient"};
  for (int64_t i = 0; i < kSamples; ++i) {
    samples.of.push_back(i);
    patients.of.push_back(i / 3);
  }
  const auto alone = measure(Task::multiclass, {"a", "b", "c"}, p, samples);
  const auto grouped = measure(Task::multiclass, {"a", "b", "c"}, p, patients);
  const auto width = [](const Interval& interval) { return interval.high - interval.low; };
  for (const char* name : {"sensitivity_a", "specificity_b", "precision_c"}) {
    INFO(name);
    const Interval& one = *named(alone, name).measured.confidence.interval;
    CHECK(one.method == "Wilson");
    const Interval& other = *named(grouped, name).measured.confidence.interval;
    CHECK(other.method == "clustered Wilson");
    CHECK(width(other) > 0.999 * width(one));
  }
  const Measured& sensitivity = named(alone, "sensitivity_a").measured;
  CHECK(sensitivity.confidence.groups == 25);  // those with a positive
  CHECK(sensitivity.confidence.interval->low == Approx(wilson(0.44, 25, kNormalQuantile).low));
  for (const char* name : {"sensitivity", "f1", "f1_a", "brier", "ece"}) {
    const Measured& measured = named(grouped, name).measured;
    INFO(name);
    REQUIRE(measured.confidence.interval);
    CHECK(measured.confidence.interval->low < *measured.value);
    CHECK(measured.confidence.interval->high > *measured.value);
    CHECK(measured.confidence.groups == 20);
  }
}

TEST_CASE("the Brier score of what is no probability has no interval") {
  Predictions p;
  p.outputs = 1;
  Groups samples{{}, 12, "sample"};
  for (int i = 0; i < 12; ++i) {
    samples.of.push_back(i);
    p.scores.push_back(i);
    p.labels.push_back(i > 5 ? 1.0F : 0.0F);
  }
  p.loss.assign(p.scores.size(), 0);
  const Measured brier = named(measure(Task::multilabel, {"a"}, p, samples), "brier").measured;
  CHECK(*brier.value > 1);
  CHECK(brier.confidence.no_interval == "not all scores are from 0 to 1");
}
