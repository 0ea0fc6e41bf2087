#include <ATen/ATen.h>

#include <cmath>
#include <numeric>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "dtrain/metrics/auroc.hpp"
#include "dtrain/metrics/figures.hpp"
#include "dtrain/metrics/gather.hpp"
#include "dtrain/metrics/share.hpp"
#include "support/catch.hpp"

using namespace dtrain;

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
    KeyedRandom random(seed, Purpose::synthetic_data);
    std::vector<double> scores;
    std::vector<float> labels;
    for (int i = 0; i < 200; ++i) {
      scores.push_back(static_cast<double>(random.below(20)) / 20);
      labels.push_back(i % 2 == 1 && random.chance(0.2) ? std::nanf("") : random.chance(0.3) ? 1.0F : 0.0F);
    }
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

TEST_CASE("multilabel figures: the mean is over defined classes, undefined ones are named") {
  Predictions p;
  p.loss = at::tensor({0.1, 0.2, 0.3, 0.4}, at::kDouble);
  p.scores = at::tensor({0.1, 0.5, 0.9, 0.5, 0.4, 0.5, 0.3, 0.5}, at::kDouble).view({4, 2});
  p.labels = at::tensor({0.0F, 0.0F, 1.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0.0F}).view({4, 2});
  const auto figures = figures_of(Task::multilabel, {"Mass", "Hernia"}, p);
  REQUIRE(figures.size() == 3);
  CHECK(figures[0].name == "auroc");
  CHECK(figures[0].value == 1);
  CHECK(figures[1].name == "auroc_Mass");
  CHECK(figures[2].name == "auroc_Hernia");
  CHECK_FALSE(figures[2].value);
  CHECK(mean_loss(p) == Approx(0.25));
}

TEST_CASE("multiclass figures: accuracy, and the AUROC of the second of two classes") {
  Predictions p;
  p.loss = at::zeros({4}, at::kDouble);
  p.scores = at::tensor({0.9, 0.1, 0.2, 0.8, 0.6, 0.4, 0.7, 0.3}, at::kDouble).view({4, 2});
  p.labels = at::one_hot(at::tensor({int64_t{0}, int64_t{1}, int64_t{1}, int64_t{0}}), 2).to(at::kFloat);
  const auto figures = figures_of(Task::multiclass, {"good", "bad"}, p);
  CHECK(figures[0].name == "accuracy");
  CHECK(figures[0].value == 0.75);
  CHECK(figures[1].value == 1);
  CHECK(figure_names(Task::multiclass, {"a", "b", "c"}).size() == 5);
}

TEST_CASE("segmentation figures: pooled and per image, an empty union counts as 1") {
  Predictions p;
  p.loss = at::zeros({3}, at::kDouble);
  p.pixels = at::tensor({int64_t{10}, int64_t{20}, int64_t{30}, int64_t{0}, int64_t{0}, int64_t{0}, int64_t{5},
                         int64_t{5}, int64_t{5}})
                 .view({3, 1, 3});
  const auto figures = figures_of(Task::segmentation, {"foreground"}, p);
  CHECK(figures[0].value.value() == Approx(15.0 / 45));
  CHECK(figures[1].value.value() == Approx((0.25 + 1 + 1) / 3));
  CHECK(figures[2].value.value() == Approx(30.0 / 60));
  const auto overlaps = sample_overlaps(p);
  CHECK(overlaps[0].iou == 0.25);
  CHECK(overlaps[1].dice == 1);
}

// 40 patients with two samples each, scores of two outputs and their labels, some unknown.
static Predictions of_patients(Groups& groups) {
  KeyedRandom random(4, Purpose::synthetic_data);
  Predictions p;
  p.loss = at::zeros({80}, at::kDouble);
  p.scores = at::zeros({80, 2}, at::kDouble);
  p.labels = at::zeros({80, 2}, at::kFloat);
  groups = {{}, 40, "patient"};
  for (int64_t i = 0; i < 80; ++i) {
    groups.of.push_back(i / 2);
    for (int64_t k = 0; k < 2; ++k) {
      const bool label = random.chance(0.5);
      p.labels[i][k] = i % 2 == 1 && random.chance(0.2) ? std::nanf("") : label ? 1.0F : 0.0F;
      p.scores[i][k] = (label ? 1.0 : 0.0) + random.normal();
    }
  }
  return p;
}

TEST_CASE("with groups each figure has its interval, with the same value as without") {
  Groups groups;
  const Predictions p = of_patients(groups);
  const auto plain = figures_of(Task::multilabel, {"Mass", "Hernia"}, p);
  const auto sure = figures_of(Task::multilabel, {"Mass", "Hernia"}, p, groups);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(plain[i].value == sure[i].value);
    CHECK_FALSE(plain[i].confidence.interval);
    REQUIRE(sure[i].confidence.interval);
    CHECK(sure[i].confidence.interval->method == "Obuchowski");
    CHECK(sure[i].confidence.groups == 40);
  }
  const auto width = [&](size_t i) { return sure[i].confidence.interval->high - sure[i].confidence.interval->low; };
  CHECK(width(0) < width(1));  // the mean of two is surer than either
  CHECK(width(0) < width(2));
}

TEST_CASE("accuracy, IoU and Dice have the intervals of their groups' shares") {
  Groups groups;
  Predictions p = of_patients(groups);
  p.labels = at::one_hot(p.labels.select(1, 1).eq(1).to(at::kLong), 2).to(at::kFloat);
  const auto accuracy = figures_of(Task::multiclass, {"good", "bad"}, p, groups)[0];
  CHECK(accuracy.confidence.interval->method == "clustered Wilson");

  KeyedRandom random(5, Purpose::synthetic_data);
  std::vector<int64_t> counts;
  std::vector<GroupShare> iou(40);
  std::vector<GroupShare> dice(40);
  std::vector<GroupShare> image(40);
  for (size_t i = 0; i < 80; ++i) {
    const auto predicted = static_cast<int64_t>(20 + random.below(50));
    const auto wanted = static_cast<int64_t>(20 + random.below(50));
    const auto both = static_cast<int64_t>(random.below(20));
    counts.insert(counts.end(), {both, predicted, wanted});
    const auto add = [&](GroupShare& sum, double part, double whole) { sum = {sum.part + part, sum.whole + whole}; };
    const auto in_both = static_cast<double>(both);
    const auto united = static_cast<double>(predicted + wanted - both);
    add(iou[i / 2], in_both, united);
    add(dice[i / 2], 2 * in_both, static_cast<double>(predicted + wanted));
    add(image[i / 2], in_both / united, 1);
  }
  p.pixels = at::tensor(counts).view({80, 1, 3});
  const auto figures = figures_of(Task::segmentation, {"foreground"}, p, groups);
  const std::vector<GroupShare>* shares[] = {&iou, &image, &dice};
  for (size_t i = 0; i < 3; ++i) {
    const Interval wanted = *share_confidence(*figures[i].value, {shares[i], 1}, "patient").interval;
    CHECK(figures[i].confidence.interval->low == Approx(wanted.low));
    CHECK(figures[i].confidence.interval->high == Approx(wanted.high));
  }
}

TEST_CASE("rows are put into the order of the set for any number of ranks, empty ones too") {
  for (int n = 1; n <= 4; ++n)
    CHECK_NOTHROW(run_ranks(n, [n](Communicator& comm) {
      std::vector<int64_t> places;
      for (int64_t i = 6; i >= 0; --i)
        if (i % 3 == comm.rank() || (n < 3 && i % 3 >= n && comm.rank() == 0)) places.push_back(i);
      const at::Tensor rows = at::tensor(places, at::kLong).to(at::kDouble).unsqueeze(1) * 10;
      const at::Tensor all = gather_rows(comm, rows.view({static_cast<int64_t>(places.size()), 1}), places, 7);
      check(at::equal(all.squeeze(1), at::arange(7, at::kDouble) * 10), "rows come in order");
    }));
}

TEST_CASE("a sample that is missing or counted twice is an error") {
  const auto one = make_serial_communicator();
  CHECK_THROWS_AS(gather_rows(*one, at::zeros({2, 1}), {0, 0}, 2), InternalError);
  CHECK_THROWS_AS(gather_rows(*one, at::zeros({1, 1}), {0}, 2), InternalError);
}
