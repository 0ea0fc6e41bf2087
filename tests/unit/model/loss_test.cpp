#include "dtrain/model/loss.hpp"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;

using test::relative_error;

static constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

// Binary cross-entropy of one logit, as in a textbook.
static double bce(double logit, double label, double pos_weight = 1) {
  const double p = 1 / (1 + std::exp(-logit));
  return -(pos_weight * label * std::log(p) + (1 - label) * std::log(1 - p));
}

static double at2(const at::Tensor& tensor, int64_t i, int64_t k) { return tensor[i][k].item<double>(); }

TEST_CASE("multilabel: binary cross-entropy per sample, mean over the outputs") {
  const at::Tensor logits = 2 * test::keyed_normal({5, 3}, 1).to(at::kDouble);
  const at::Tensor targets = (test::keyed_normal({5, 3}, 2) > 0).to(at::kFloat);
  const std::vector<double> weight{1, 2.5, 0.25};
  const at::Tensor plain = Loss({}, Task::multilabel, {}).per_sample(logits, targets);
  const at::Tensor weighted = Loss({}, Task::multilabel, weight).per_sample(logits, targets);
  REQUIRE(plain.sizes() == at::IntArrayRef({5}));
  CHECK(plain.scalar_type() == at::kDouble);
  for (int64_t i = 0; i < 5; ++i) {
    double expected = 0, expected_weighted = 0;
    for (int64_t k = 0; k < 3; ++k) {
      expected += bce(at2(logits, i, k), at2(targets, i, k)) / 3;
      expected_weighted += bce(at2(logits, i, k), at2(targets, i, k), weight[static_cast<size_t>(k)]) / 3;
    }
    CHECK(plain[i].item<double>() == Approx(expected).epsilon(1e-12));
    CHECK(weighted[i].item<double>() == Approx(expected_weighted).epsilon(1e-12));
  }
  CHECK(plain.mean().item<double>() ==
        Approx(at::binary_cross_entropy_with_logits(logits, targets.to(at::kDouble)).item<double>()).epsilon(1e-12));
}

TEST_CASE("an unknown label gives no loss and no gradient, and does not touch the others") {
  at::Tensor logits = test::keyed_normal({2, 3}, 1).set_requires_grad(true);
  const at::Tensor targets = at::tensor({1.0F, kUnknown, 0.0F, kUnknown, kUnknown, kUnknown}).view({2, 3});
  const at::Tensor loss = Loss({}, Task::multilabel, {2, 2, 2}).per_sample(logits, targets);
  const double expected = (bce(at2(logits, 0, 0), 1, 2) + bce(at2(logits, 0, 2), 0, 2)) / 3;
  CHECK(loss[0].item<double>() == Approx(expected).epsilon(1e-6));
  CHECK(loss[1].item<double>() == 0);
  loss.sum().backward();
  const at::Tensor gradient = logits.grad();
  CHECK(at2(gradient, 0, 0) != 0);
  CHECK(at2(gradient, 0, 2) != 0);
  for (const auto& [i, k] : {std::pair{0, 1}, {1, 0}, {1, 1}, {1, 2}}) CHECK(at2(gradient, i, k) == 0);
}

TEST_CASE("multiclass: cross-entropy per sample, with and without label smoothing") {
  const at::Tensor logits = 2 * test::keyed_normal({4, 3}, 1).to(at::kDouble);
  const at::Tensor targets = at::tensor({2, 0, 1, 2}, at::kLong);
  const double smoothing = GENERATE(0.0, 0.1);
  LossOptions options;
  options.label_smoothing = smoothing;
  const at::Tensor loss = Loss(options, Task::multiclass, {}).per_sample(logits, targets);
  for (int64_t i = 0; i < 4; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < 3; ++k) sum += std::exp(at2(logits, i, k));
    double expected = 0;
    for (int64_t k = 0; k < 3; ++k) {
      const double share = (k == targets[i].item<int64_t>() ? 1 - smoothing : 0) + smoothing / 3;
      expected -= share * (at2(logits, i, k) - std::log(sum));
    }
    CHECK(loss[i].item<double>() == Approx(expected).epsilon(1e-12));
  }
  CHECK(loss.mean().item<double>() ==
        Approx(at::cross_entropy_loss(logits, targets, {}, at::Reduction::Mean, -100, smoothing).item<double>())
            .epsilon(1e-12));
}

TEST_CASE("multiclass: class_weight is PyTorch's weight, and the mean is over samples") {
  const at::Tensor logits = 2 * test::keyed_normal({4, 3}, 1).to(at::kDouble);
  const at::Tensor targets = at::tensor({2, 0, 1, 2}, at::kLong);
  LossOptions options;
  options.label_smoothing = GENERATE(0.0, 0.1);
  const std::vector<double> factors = {0.5, 2, 1.25};
  const at::Tensor weight = at::tensor(factors, at::kDouble);
  const at::Tensor loss = Loss(options, Task::multiclass, factors).per_sample(logits, targets);
  const at::Tensor torch =
      at::cross_entropy_loss(logits, targets, weight, at::Reduction::Mean, -100, options.label_smoothing);
  CHECK(loss.sum().item<double>() ==
        Approx((torch * weight.index_select(0, targets).sum()).item<double>()).epsilon(1e-12));
  if (options.label_smoothing == 0)
    CHECK(loss[1].item<double>() == Approx(-0.5 * logits.log_softmax(1)[1][0].item<double>()).epsilon(1e-12));
}

TEST_CASE("balanced class weights have the mean 1 over the samples") {
  CHECK(balanced_class_weight({6, 2, 0, 4}) == std::vector<double>{0.5, 1.5, 1, 0.75});
}

// torchvision.ops.sigmoid_focal_loss of these in float64: gamma 2 and alpha 0.25, that is weight 1/3 times 3/4.
TEST_CASE("focal loss is torchvision's, its gradient finite for every gamma") {
  const at::Tensor logits = at::tensor({2.0, -1.0, 0.5, -3.0, 40.0, -40.0}, at::kDouble).view({2, 3});
  const at::Tensor targets = at::tensor({1.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F}).view({2, 3});
  LossOptions focal;
  focal.kind = loss_kind("focal");
  const at::Tensor paper =
      0.75 * Loss(focal, Task::multilabel, {1.0 / 3, 1.0 / 3, 1.0 / 3}).per_sample(logits, targets);
  const std::vector<double> torchvision = {0.15299222240207122, 10.000027320831125};
  CHECK(paper[0].item<double>() == Approx(torchvision[0]).epsilon(1e-12));
  CHECK(paper[1].item<double>() == Approx(torchvision[1]).epsilon(1e-12));
  for (const double gamma : {0.0, 0.5, 2.0}) {
    focal.gamma = gamma;
    at::Tensor x = logits.clone().set_requires_grad(true);
    const Loss loss(focal, Task::multilabel, {});
    const at::Tensor value = loss.per_sample(x, targets);
    if (gamma == 0) CHECK(at::allclose(value, Loss({}, Task::multilabel, {}).per_sample(logits, targets), 1e-12, 0));
    value.sum().backward();
    CHECK(x.grad().isfinite().all().item<bool>());
  }
  const at::Tensor unknown = targets.clone();
  unknown[0][1] = kUnknown;
  at::Tensor x = logits.clone().set_requires_grad(true);
  const at::Tensor partly = Loss(focal, Task::multilabel, {}).per_sample(x, unknown);
  partly.sum().backward();
  CHECK(x.grad()[0][1].item<double>() == 0);
  CHECK(partly[0].item<double>() < Loss(focal, Task::multilabel, {}).per_sample(logits, targets)[0].item<double>());
}

TEST_CASE("no constant prediction has a lower focal or weighted loss than that of the frequencies") {
  const LabelCounts counts{{3, 10, 0}, {17, 10, 20}, 20};
  LossOptions focal;
  focal.kind = loss_kind("focal");
  focal.gamma = GENERATE(0.5, 2.0);
  const double lowest = Loss(focal, Task::multilabel, {4, 1, 1}).of_frequencies(counts, counts);
  double found = 0;
  for (size_t k = 0; k < 3; ++k) {
    double best = std::numeric_limits<double>::infinity();
    for (double p = 0.025; p <= 0.975; p += 1e-4)
      best = std::min(best, -(k == 0 ? 4 : 1) * counts.positive[k] * std::pow(1 - p, focal.gamma) * std::log(p) -
                                counts.negative[k] * std::pow(p, focal.gamma) * std::log(1 - p));
    found += best / 60;
  }
  CHECK(lowest == Approx(found).epsilon(1e-5));
  const LabelCounts classes{{5, 15}, {15, 5}, 20};
  const double weighted = Loss({}, Task::multiclass, {3, 1}).of_frequencies(classes, classes);
  CHECK(weighted == Approx(1.5 * std::log(2)));  // 3 × 5 against 15: even answers
}

TEST_CASE("segmentation: binary cross-entropy, mean over outputs and pixels, one weight per output") {
  const at::Tensor logits = test::keyed_normal({2, 2, 4, 6}, 1).to(at::kDouble);
  const at::Tensor targets = (test::keyed_normal({2, 2, 4, 6}, 2) > 0).to(at::kFloat);
  const at::Tensor loss = Loss({}, Task::segmentation, {1, 3}).per_sample(logits, targets);
  for (int64_t i = 0; i < 2; ++i) {
    double expected = 0;
    for (int64_t k = 0; k < 2; ++k)
      for (int64_t y = 0; y < 4; ++y)
        for (int64_t x = 0; x < 6; ++x)
          expected += bce(logits[i][k][y][x].item<double>(), targets[i][k][y][x].item<double>(), k == 0 ? 1 : 3) / 48;
    CHECK(loss[i].item<double>() == Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("cross-entropy of masks takes a pixel without a class as background, and is PyTorch's mean over pixels") {
  const at::Tensor logits = test::keyed_normal({2, 3, 4, 6}, 1).to(at::kDouble);
  const at::Tensor numbers = (test::keyed_normal({2, 4, 6}, 2) * 1.5).abs().clamp_max(2).to(at::kLong);
  REQUIRE(numbers.amax().item<int64_t>() == 2);
  REQUIRE(numbers.amin().item<int64_t>() == 0);
  const at::Tensor masks = at::stack({numbers.eq(1), numbers.eq(2)}, 1).to(at::kFloat);
  LossOptions options;
  options.kind = loss_kind("cross_entropy");
  options.label_smoothing = GENERATE(0.0, 0.1);
  const Loss loss(options, Task::segmentation, {});
  CHECK(loss.per_sample(logits, masks).mean().item<double>() ==
        Approx(at::cross_entropy_loss(logits, numbers, {}, at::Reduction::Mean, -100, options.label_smoothing)
                   .item<double>())
            .epsilon(1e-12));
  const std::vector<double> factors = {0.1, 1, 3};
  const at::Tensor parts = at::cross_entropy_loss(logits, numbers, at::tensor(factors, at::kDouble),
                                                  at::Reduction::None, -100, options.label_smoothing);
  CHECK(relative_error(Loss(options, Task::segmentation, factors).per_sample(logits, masks), parts.mean({1, 2})) <
        1e-12);
  CHECK(loss.has_background(3));
  CHECK(test::same_bits(loss.probabilities(logits), logits.softmax(1).slice(1, 1)));
  CHECK(logits_for(options, Task::segmentation, 2) == 3);
  CHECK(logits_for({}, Task::segmentation, 2) == 2);
  options.kind = loss_kind("dice");
  CHECK(logits_for(options, Task::segmentation, 1) == 1);
  CHECK(logits_for(options, Task::segmentation, 2) == 3);
}

TEST_CASE("the loss of a sample does not depend on its batch") {
  at::set_num_threads(1);
  const at::Tensor logits = test::keyed_normal({6, 14}, 1),
                   targets = (test::keyed_normal({6, 14}, 2) > 0).to(at::kFloat);
  const Loss loss({}, Task::multilabel, {});
  const at::Tensor whole = loss.per_sample(logits, targets);
  for (int64_t i = 0; i < 6; ++i)
    CHECK(test::same_bits(whole.narrow(0, i, 1), loss.per_sample(logits.narrow(0, i, 1), targets.narrow(0, i, 1))));
}

TEST_CASE("large logits give finite losses and gradients") {
  at::Tensor logits = at::tensor({200.0F, -200.0F}).view({1, 2}).set_requires_grad(true);
  const at::Tensor loss = Loss({}, Task::multilabel, {}).per_sample(logits, at::tensor({0.0F, 1.0F}).view({1, 2}));
  CHECK(loss.item<double>() == Approx(200));
  loss.sum().backward();
  CHECK(logits.grad().isfinite().all().item<bool>());
}

TEST_CASE("probabilities are sigmoids, or a softmax over the classes") {
  const at::Tensor logits = at::tensor({0.0, std::log(3.0)}, at::kDouble).view({1, 2});
  const at::Tensor sigmoid = Loss({}, Task::multilabel, {}).probabilities(logits);
  CHECK(at2(sigmoid, 0, 0) == Approx(0.5));
  CHECK(at2(sigmoid, 0, 1) == Approx(0.75));
  const at::Tensor softmax = Loss({}, Task::multiclass, {}).probabilities(logits);
  CHECK(at2(softmax, 0, 0) == Approx(0.25));
  CHECK(at2(softmax, 0, 1) == Approx(0.75));
}

// The mean loss if every sample gets these logits.
static double loss_of_one_answer(const Loss& loss, const std::vector<double>& logits, const at::Tensor& targets) {
  const int64_t n = targets.size(0);
  return loss.per_sample(at::tensor(logits, at::kDouble).expand({n, -1}).contiguous(), targets).mean().item<double>();
}

TEST_CASE("the classes' frequencies have the least loss of all answers that are the same for every sample") {
  // Of ten samples the first output is 1 in three, the second in four of the eight where it is known.
  at::Tensor targets = at::zeros({10, 2});
  targets.slice(0, 0, 3).select(1, 0).fill_(1);
  targets.slice(0, 0, 4).select(1, 1).fill_(1);
  targets.slice(0, 8, 10).select(1, 1).fill_(kUnknown);
  const LabelCounts counts{{3, 4}, {7, 4}, 10};
  for (const std::vector<double>& weights : {std::vector<double>{}, {2.5, 0.5}}) {
    const Loss loss({}, Task::multilabel, weights);
    const double weight = weights.empty() ? 1 : 2.5, other = weights.empty() ? 1 : 0.5;
    const std::vector<double> logits = {std::log(weight * 3 / 7), std::log(other * 4 / 4)};
    const double least = loss.of_frequencies(counts, counts);
    CHECK(least == Approx(loss_of_one_answer(loss, logits, targets)).epsilon(1e-12));
    for (const double move : {-0.1, 0.1}) {
      CHECK(least < loss_of_one_answer(loss, {logits[0] + move, logits[1]}, targets));
      CHECK(least < loss_of_one_answer(loss, {logits[0], logits[1] + move}, targets));
    }
  }
  for (const double smoothing : {0.0, 0.2}) {
    LossOptions options;
    options.label_smoothing = smoothing;
    const Loss loss(options, Task::multiclass, {});
    const at::Tensor classes = at::tensor({0, 0, 0, 1, 1, 2, 2, 2, 2, 2}, at::kLong);
    const LabelCounts three{{3, 2, 5}, {}, 10};
    std::vector<double> logits;
    for (const double count : three.positive) logits.push_back(std::log((1 - smoothing) * count / 10 + smoothing / 3));
    const double least = loss.of_frequencies(three, three);
    CHECK(least == Approx(loss_of_one_answer(loss, logits, classes)).epsilon(1e-12));
    logits[1] += 0.1;
    CHECK(least < loss_of_one_answer(loss, logits, classes));
  }
}

TEST_CASE("frequencies of one set judge another, and a class that the first never has is half a sample") {
  const Loss loss({}, Task::multiclass, {});
  const LabelCounts known{{6, 4, 0}, {}, 10};
  CHECK(loss.of_frequencies(known, {{1, 1, 0}, {}, 2}) == Approx(-(std::log(0.6) + std::log(0.4)) / 2));
  CHECK(loss.of_frequencies(known, {{0, 0, 1}, {}, 1}) == Approx(-std::log(0.05)));
  CHECK(loss.of_frequencies(known, {{0, 0, 0}, {}, 0}) == 0);
  const Loss bce_loss({}, Task::segmentation, {});
  CHECK(bce_loss.of_frequencies({{1}, {1}, 2}, {{1}, {1}, 2}) == Approx(std::log(2)));
  CHECK(bce_loss.of_frequencies({{0}, {0}, 5}, {{0}, {3}, 3}) == Approx(std::log(2)));  // no label of it is known
}

TEST_CASE("a loss that does not fit its task is a configuration error") {
  LossOptions bce_options, entropy_options, smooth;
  bce_options.kind = loss_kind("bce");
  entropy_options.kind = loss_kind("cross_entropy");
  smooth.label_smoothing = 0.1;
  CHECK_THROWS_AS(Loss(bce_options, Task::multiclass, {}), ConfigError);
  CHECK_THROWS_AS(Loss(entropy_options, Task::multilabel, {}), ConfigError);
  CHECK_THROWS_AS(Loss(smooth, Task::multilabel, {}), ConfigError);
  smooth.label_smoothing = 1;
  CHECK_THROWS_AS(Loss(smooth, Task::multiclass, {}), ConfigError);
  const Loss two({}, Task::multilabel, {1, 2});
  CHECK_THROWS_WITH(two.per_sample(at::zeros({1, 3}), at::zeros({1, 3})), Catch::Contains("2 weights"));
}

TEST_CASE("balanced weights are negatives per positive, unknown labels apart") {
  const std::vector<std::vector<float>> targets{
      {1, 0, 0, kUnknown}, {0, 0, 1, kUnknown}, {0, 0, 1, 1}, {kUnknown, 0, 1, 0}};
  CHECK(balanced_pos_weight(targets, 4) == std::vector<double>{2, 1, 1.0 / 3, 1});
  CHECK(balanced_pos_weight({}, 2) == std::vector<double>{1, 1});
}
