#include <ATen/ATen.h>

#include <cmath>
#include <numeric>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "dtrain/metrics/auroc.hpp"
#include "dtrain/metrics/figures.hpp"
#include "dtrain/metrics/gather.hpp"
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
  const auto result = auroc(scores, labels);
  REQUIRE(result);
  CHECK(result->value == Approx(0.6875));
  CHECK(result->low < result->value);
  CHECK(result->high > result->value);
}

TEST_CASE("AUROC equals the count over all pairs on random data with many ties and unknown labels") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    KeyedRandom random(seed, Purpose::synthetic_data);
    std::vector<double> scores;
    std::vector<float> labels;
    for (int i = 0; i < 200; ++i) {
      scores.push_back(static_cast<double>(random.below(20)) / 20);
      labels.push_back(random.chance(0.1) ? std::nanf("") : random.chance(0.3) ? 1.0F : 0.0F);
    }
    INFO("seed " << seed);
    CHECK(auroc(scores, labels)->value == Approx(auroc_by_pairs(scores, labels)).epsilon(1e-12));
  }
}

TEST_CASE("AUROC of a class without both labels is undefined") {
  CHECK_FALSE(auroc(std::vector<double>{0.1, 0.2}, std::vector<float>{1, 1}));
  CHECK_FALSE(auroc(std::vector<double>{0.1, 0.2}, std::vector<float>{0, std::nanf("")}));
  CHECK_FALSE(auroc(std::vector<double>{}, std::vector<float>{}));
  const auto perfect = auroc(std::vector<double>{0.1, 0.9}, std::vector<float>{0, 1});
  CHECK(perfect->value == 1);
}

TEST_CASE("multilabel figures: the mean is over defined classes, undefined ones are named") {
  Predictions p;
  p.loss = at::tensor({0.1, 0.2, 0.3, 0.4}, at::kDouble);
  p.scores = at::tensor({0.1, 0.5, 0.9, 0.5, 0.4, 0.5, 0.3, 0.5}, at::kDouble).view({4, 2});
  p.labels = at::tensor({0.0F, 0.0F, 1.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0.0F}).view({4, 2});
  const auto figures = figures_of(Task::multilabel, {"Mass", "Hernia"}, p, true);
  REQUIRE(figures.size() == 3);
  CHECK(figures[0].name == "auroc");
  CHECK(figures[0].value->value == 1);
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
  const auto figures = figures_of(Task::multiclass, {"good", "bad"}, p, true);
  CHECK(figures[0].name == "accuracy");
  CHECK(figures[0].value->value == 0.75);
  CHECK(figures[0].value->low == Approx(0.3006).epsilon(1e-3));  // Wilson, 3 of 4
  CHECK(figures[1].value->value == 1);
  CHECK(figure_names(Task::multiclass, {"a", "b", "c"}).size() == 5);
}

TEST_CASE("segmentation figures: pooled and per image, an empty union counts as 1") {
  Predictions p;
  p.loss = at::zeros({3}, at::kDouble);
  p.pixels = at::tensor({int64_t{10}, int64_t{20}, int64_t{30}, int64_t{0}, int64_t{0}, int64_t{0}, int64_t{5},
                         int64_t{5}, int64_t{5}})
                 .view({3, 1, 3});
  const auto figures = figures_of(Task::segmentation, {"foreground"}, p, true);
  CHECK(figures[0].value->value == Approx(15.0 / 45));
  CHECK(figures[1].value->value == Approx((0.25 + 1 + 1) / 3));
  CHECK(figures[2].value->value == Approx(30.0 / 60));
  CHECK(figures[0].value->low <= figures[0].value->value);
  const auto overlaps = sample_overlaps(p);
  CHECK(overlaps[0].iou == 0.25);
  CHECK(overlaps[1].dice == 1);
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
