#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/metrics/auroc.hpp"
#include "dtrain/metrics/measure.hpp"
#include "dtrain/metrics/share.hpp"
#include "support/catch.hpp"
#include "unit/metrics/test_tools.hpp"

using namespace dtrain;
using test::named;

// All pairs, ties counted half: the definition, in quadratic time.
static double auroc_by_pairs(const std::vector<double>& scores, const std::vector<float>& labels) {
  double wins = 0;
  double pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i)
    for (size_t j = 0; j < scores.size(); ++j)
      if (labels[i] == 1 && labels[j] == 0) {
        ++pairs;
        wins += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      }
  return wins / pairs;
}

TEST_CASE("AUROC counts ties half (the number is scikit-learn's)") {
  const std::vector<double> scores = {0.1, 0.4, 0.35, 0.8, 0.4, 0.7, 0.2, 0.4};
  const std::vector<float> labels = {0, 0, 1, 1, 1, 0, 0, 1};
  CHECK(auroc(scores, labels).value() == Approx(0.6875));
}

TEST_CASE("AUROC equals the count over all pairs on random data with many ties and unknown labels") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto [scores, labels] = test::tied_scores(seed);
    INFO("seed " << seed);
    CHECK(auroc(scores, labels).value() == Approx(auroc_by_pairs(scores, labels)).epsilon(1e-12));
  }
}

TEST_CASE("AUROC of a class without both labels is undefined") {
  CHECK_FALSE(auroc(std::vector<double>{0.1, 0.2}, std::vector<float>{1, 1}));
  CHECK_FALSE(auroc(std::vector<double>{0.1, 0.2}, std::vector<float>{0, std::nanf("")}));
  CHECK_FALSE(auroc(std::vector<double>{}, std::vector<float>{}));
  CHECK(auroc(std::vector<double>{0.1, 0.9}, std::vector<float>{0, 1}).value() == 1);
}

TEST_CASE("multilabel: the mean is over defined classes, undefined ones are named") {
  Predictions p;
  p.outputs = 2;
  p.loss = {0.1, 0.2, 0.3, 0.4};
  p.scores = {0.1, 0.5, 0.9, 0.5, 0.4, 0.5, 0.3, 0.5};
  p.labels = {0, 0, 1, 0, 1, 0, 0, 0};
  const auto values = measure(Task::multilabel, {"Mass", "Hernia"}, p);
  CHECK(named(values, "auroc").measured.value == 1);
  CHECK(named(values, "auroc_Mass").measured.value == 1);
  CHECK_FALSE(named(values, "auroc_Hernia").measured.value);
  CHECK_FALSE(named(values, "auroc_Hernia").metric->undefined.empty());
  CHECK(mean_loss(p) == Approx(0.25));
}

TEST_CASE("multiclass: accuracy, and the AUROC of the second of two classes") {
  Predictions p;
  p.task = Task::multiclass;
  p.outputs = 2;
  p.loss = {0, 0, 0, 0};
  p.scores = {0.9, 0.1, 0.2, 0.8, 0.6, 0.4, 0.7, 0.3};
  p.labels = {1, 0, 0, 1, 0, 1, 1, 0};
  const auto values = measure(Task::multiclass, {"good", "bad"}, p);
  CHECK(named(values, "accuracy").measured.value == 0.75);
  CHECK(named(values, "auroc").measured.value == 1);
}

TEST_CASE("of equal probabilities the first is the answer") {
  Predictions p;
  p.task = Task::multiclass;
  p.outputs = 3;
  p.loss = {0, 0};
  p.scores = {0.4, 0.4, 0.2, 0.2, 0.4, 0.4};
  p.labels = {1, 0, 0, 0, 0, 1};
  CHECK(named(measure(Task::multiclass, {"a", "b", "c"}, p), "accuracy").measured.value == 0.5);
}

TEST_CASE("segmentation: pooled and per image, an empty union counts as 1") {
  Predictions p;
  p.task = Task::segmentation;
  p.outputs = 1;
  p.loss = {0, 0, 0};
  p.pixels = {{10, 20, 30}, {0, 0, 0}, {5, 5, 5}};
  const auto values = measure(Task::segmentation, {"foreground"}, p);
  CHECK(named(values, "iou").measured.value.value() == Approx(15.0 / 45));
  CHECK(named(values, "iou_image").measured.value.value() == Approx((0.25 + 1 + 1) / 3));
  CHECK(named(values, "dice").measured.value.value() == Approx(30.0 / 60));
  const Metric& iou = *named(values, "iou").metric;
  const Metric& dice = *named(values, "dice").metric;
  CHECK(iou.of_sample(p.counts(0, 0)) == 0.25);
  CHECK(dice.of_sample(p.counts(0, 0)) == Approx(0.4));
  CHECK(dice.of_sample(p.counts(1, 0)) == 1);
}

TEST_CASE("several classes of masks: the mean of their overlaps, and the IoU of each") {
  Predictions p;
  p.task = Task::segmentation;
  p.outputs = 2;
  p.loss = {0, 0};
  p.pixels = {{2, 4, 4}, {1, 1, 1}, {1, 1, 1}, {1, 3, 2}};
  const auto values = measure(Task::segmentation, {"nucleus", "wall"}, p);
  const auto is = [&](const std::string& name, double value) {
    CHECK(named(values, name).measured.value.value() == Approx(value));
  };
  is("iou", (3.0 / 7 + 2.0 / 5) / 2);
  is("iou_image", (2.0 / 6 + 1 + 1 + 1.0 / 4) / 4);
  is("dice", (6.0 / 10 + 4.0 / 7) / 2);
  is("iou_nucleus", 3.0 / 7);
  is("iou_wall", 2.0 / 5);
}

TEST_CASE("each class of a mask has the interval of its own pixels") {
  Predictions p;
  p.task = Task::segmentation;
  p.outputs = 2;
  p.loss.assign(20, 0);
  Groups groups{{}, 20, "patient"};
  std::vector<std::vector<GroupShare>> shares(2);
  for (int64_t i = 0; i < 20; ++i) {
    groups.of.push_back(i);
    for (const int64_t both : {10 + i % 3, 2 + i % 5}) p.pixels.push_back({both, 15, 14});
    for (size_t k = 0; k < 2; ++k) {
      const auto both = static_cast<double>(p.counts(static_cast<size_t>(i), k).both);
      shares[k].push_back({both, 15 + 14 - both});
    }
  }
  const auto values = measure(Task::segmentation, {"cell", "wall"}, p, groups);
  for (size_t k = 0; k < 2; ++k) {
    const Measured& own = named(values, k == 0 ? "iou_cell" : "iou_wall").measured;
    REQUIRE(own.confidence.interval);
    const Interval wanted = *share_confidence(*own.value, {&shares[k], 1}, "patient").interval;
    CHECK(own.confidence.interval->low == wanted.low);
    CHECK(own.confidence.interval->high == wanted.high);
  }
}

TEST_CASE("a part without samples has names and no values, one with a single sample has both") {
  Predictions p;
  for (const NamedValue& one : measure(Task::multiclass, {"good", "bad"}, p)) CHECK_FALSE(one.measured.value);
  for (const NamedValue& one : measure(Task::segmentation, {"a", "b"}, p)) CHECK_FALSE(one.measured.value);
  p.task = Task::multiclass;
  p.outputs = 2;
  p.loss = {0.5};
  p.scores = {0.1, 0.9};
  p.labels = {0, 1};
  const auto single = measure(Task::multiclass, {"good", "bad"}, p);
  CHECK(named(single, "accuracy").measured.value == 1);
  CHECK_FALSE(named(single, "auroc").measured.value);  // no pair
}

// 40 patients with two samples each, scores of two outputs and their labels, some unknown.
static Predictions forty_patients(Groups& groups) {
  KeyedRandom random(4, Purpose::synthetic_data);
  Predictions p;
  p.outputs = 2;
  p.loss.assign(80, 0);
  groups = {{}, 40, "patient"};
  for (int64_t i = 0; i < 80; ++i) {
    groups.of.push_back(i / 2);
    for (int64_t k = 0; k < 2; ++k) {
      const bool label = random.chance(0.5);
      p.labels.push_back(i % 2 == 1 && random.chance(0.2) ? std::nanf("") : label ? 1.0F : 0.0F);
      p.scores.push_back(1 / (1 + std::exp(-(label ? 1.0 : 0.0) - random.normal())));
    }
  }
  return p;
}

TEST_CASE("with groups each value has its interval, and is the same as without") {
  Groups groups;
  const Predictions p = forty_patients(groups);
  const auto plain = measure(Task::multilabel, {"Mass", "Hernia"}, p);
  const auto sure = measure(Task::multilabel, {"Mass", "Hernia"}, p, groups);
  for (size_t i = 0; i < sure.size(); ++i) {
    INFO(sure[i].name);
    CHECK(plain[i].measured.value == sure[i].measured.value);
    CHECK_FALSE(plain[i].measured.confidence.interval);
    REQUIRE(sure[i].measured.confidence.interval);
    const bool of_calls = sure[i].metric->in_table;  // some of these are of positives, or of negatives, alone
    CHECK(sure[i].measured.confidence.groups <= 40);
    CHECK((of_calls || sure[i].measured.confidence.groups == 40));
  }
  const auto width = [&](const std::string& name) {
    const Interval& interval = *named(sure, name).measured.confidence.interval;
    CHECK(interval.method == "Obuchowski");
    return interval.high - interval.low;
  };
  CHECK(width("auroc") < width("auroc_Mass"));  // the mean of two is surer than either
  CHECK(width("auroc") < width("auroc_Hernia"));
}

TEST_CASE("accuracy, IoU and Dice have the intervals of their groups' shares") {
  Groups groups;
  Predictions p = forty_patients(groups);
  for (size_t i = 0; i < p.samples(); ++i) {
    const float second = p.label(i, 1) == 1 ? 1.0F : 0.0F;
    p.labels[2 * i] = 1 - second;
    p.labels[2 * i + 1] = second;
  }
  p.task = Task::multiclass;
  const auto classified = measure(Task::multiclass, {"good", "bad"}, p, groups);
  CHECK(named(classified, "accuracy").measured.confidence.interval->method == "clustered Wilson");

  KeyedRandom random(5, Purpose::synthetic_data);
  std::vector<GroupShare> iou(40);
  std::vector<GroupShare> dice(40);
  std::vector<GroupShare> image(40);
  p.outputs = 1;
  for (size_t i = 0; i < 80; ++i) {
    const auto predicted = static_cast<int64_t>(20 + random.below(50));
    const auto wanted = static_cast<int64_t>(20 + random.below(50));
    const auto both = static_cast<int64_t>(random.below(20));
    p.pixels.push_back({both, predicted, wanted});
    const auto add = [&](GroupShare& sum, double part, double whole) { sum = {sum.part + part, sum.whole + whole}; };
    const auto in_both = static_cast<double>(both);
    const auto united = static_cast<double>(predicted + wanted - both);
    add(iou[i / 2], in_both, united);
    add(dice[i / 2], 2 * in_both, static_cast<double>(predicted + wanted));
    add(image[i / 2], in_both / united, 1);
  }
  p.task = Task::segmentation;
  const auto values = measure(Task::segmentation, {"foreground"}, p, groups);
  for (const auto& [name, shares] : {std::pair{"iou", &iou}, {"iou_image", &image}, {"dice", &dice}}) {
    INFO(name);
    const Measured& measured = named(values, name).measured;
    const Interval wanted = *share_confidence(*measured.value, {shares, 1}, "patient").interval;
    CHECK(measured.confidence.interval->low == Approx(wanted.low));
    CHECK(measured.confidence.interval->high == Approx(wanted.high));
  }
}
