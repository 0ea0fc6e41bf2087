#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "dtrain/model/loss.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;
using test::loss_named;
using test::relative_error;

namespace {

// Logits of a pixel: a·x + b·(k + 1) + c·x² for the k-th, x a sine. Masks of classes of which a pixel has one at most.
struct Model {
  Model(int64_t classes, int64_t logits_of_pixel)
      : x((at::arange(120 * logits_of_pixel, at::kDouble) * 0.7).sin().view({4, logits_of_pixel, 6, 5})),
        number(at::arange(1, logits_of_pixel + 1, at::kDouble).view({-1, 1, 1})) {
    const at::Tensor numbers = (at::arange(120, at::kLong) * 7).remainder(11).remainder(3).view({4, 1, 6, 5});
    masks = numbers.eq(at::arange(1, classes + 1, at::kLong).view({1, -1, 1, 1})).to(at::kDouble);
  }

  at::Tensor logits() const { return weights[0] * x + weights[1] * number + weights[2] * x * x; }

  at::Tensor x, number, masks;
  at::Tensor weights = at::tensor({0.3, -0.2, 0.1}, at::kDouble).set_requires_grad(true);
};

struct Ten {
  std::vector<double> losses;
  std::vector<double> weights;  // after them
};

// Ten steps of gradient descent, each over `parts` parts of the batch that know the sums of the whole.
Ten ten_steps(const Loss& loss, Model model, int64_t parts) {
  Ten found;
  for (int step = 0; step < 10; ++step) {
    const at::Tensor known = model.logits().detach();
    const BatchSums batch{loss.sums(known, model.masks).sum(0), at::full({}, 4, at::kDouble)};
    model.weights.mutable_grad() = at::Tensor();
    double value = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = 4 * part / parts, end = 4 * (part + 1) / parts;
      const at::Tensor mean = loss.per_sample(model.logits().slice(0, begin, end), model.masks.slice(0, begin, end),
                                              parts == 1 ? BatchSums{} : batch)
                                  .sum() /
                              4;
      mean.backward();
      value += mean.item<double>();
    }
    found.losses.push_back(value);
    const at::NoGradGuard no_grad;
    model.weights.sub_(model.weights.grad(), 2);
  }
  for (int64_t i = 0; i < 3; ++i) found.weights.push_back(model.weights[i].item<double>());
  return found;
}

}  // namespace

// MONAI 1.5's DiceLoss(batch=True) of the same logits in float64, with sigmoid=True, or with softmax=True and
// include_background=False where background has a logit; PyTorch 2.11's binary_cross_entropy_with_logits or
// cross_entropy added where the name says so; PyTorch's gradients, rate 2.
TEST_CASE("over ten steps Dice is MONAI's, whole and in parts that know the sums of the whole") {
  struct Case {
    std::string name;
    int64_t classes, logits;
    std::vector<double> losses, weights;
  };
  const std::vector<Case> cases = {
      {"dice",
       1,
       1,
       {0.5923044416476818, 0.5720107497447924, 0.5566901769973728, 0.5449939391983354, 0.535903513477203,
        0.5286999387106219, 0.5228843676814212, 0.5181090471325225, 0.5141281376324545, 0.5107647879758042},
       {0.4200356202431698, 0.9407967970538441, 0.6486265086680368}},
      {"dice",
       2,
       3,
       {0.6957978579785893, 0.6813085697151444, 0.6720027508831036, 0.6661655140803577, 0.6625153473158751,
        0.6602152059463894, 0.6587464346546574, 0.6577928892347683, 0.657161758649554, 0.6567344829928792},
       {0.125053297565592, 0.5702595640223753, 0.07759509101281237}},
      {"bce_dice",
       2,
       2,
       {1.2599182584864232, 1.2494095975307997, 1.243701216473488, 1.2404628313193864, 1.2385363911441862,
        1.2373563725033516, 1.2366197533157535, 1.2361524886420172, 1.2358520035624099, 1.2356559412723573},
       {0.8589847599147938, -0.3609636680494083, 0.15984191050071556}},
      {"ce_dice",
       2,
       3,
       {1.8176029913904206, 1.7799557990283597, 1.7763537570424994, 1.7751272487954373, 1.7747098549582374,
        1.7745607786467068, 1.7745061189617988, 1.7744849012697146, 1.7744761426914701, 1.7744722544961602},
       {-0.0406237897591918, -0.03399361231638695, -0.0004549441716988484}}};
  for (const Case& wanted : cases) {
    for (const int64_t parts : {1, 2, 4}) {
      INFO(wanted.name << " in " << parts);
      const Ten found = ten_steps(loss_named(wanted.name), Model(wanted.classes, wanted.logits), parts);
      for (size_t i = 0; i < 10; ++i) CHECK(found.losses[i] == Approx(wanted.losses[i]).epsilon(1e-10));
      for (size_t i = 0; i < 3; ++i) CHECK(found.weights[i] == Approx(wanted.weights[i]).epsilon(1e-10));
    }
  }
}

TEST_CASE("in float32 the gradient of the logits does not depend on how the batch is cut, but does without its sums") {
  at::set_num_threads(1);
  for (const std::string name : {"dice", "bce_dice"}) {
    const Loss loss = loss_named(name);
    at::Tensor logits = 2 * test::keyed_normal({8, 2, 32, 32}, 1);
    // Objects of very different sizes: the first half of the pictures has hardly any.
    const at::Tensor masks =
        (test::keyed_normal({8, 2, 32, 32}, 2) > at::tensor({2.5F, -0.5F}).repeat_interleave(4).view({8, 1, 1, 1}))
            .to(at::kFloat);
    const BatchSums batch{loss.sums(logits, masks).sum(0), at::full({}, 8, at::kDouble)};
    const auto gradient = [&](int64_t parts, bool whole) {
      at::Tensor x = logits.clone().set_requires_grad(true);
      for (int64_t at = 0; at < 8; at += 8 / parts)
        (loss.per_sample(x.slice(0, at, at + 8 / parts), masks.slice(0, at, at + 8 / parts),
                         whole ? batch : BatchSums{})
             .sum() /
         8)
            .backward();
      return x.grad();
    };
    at::Tensor x = logits.to(at::kDouble).set_requires_grad(true);
    loss.per_sample(x, masks).mean().backward();
    for (const int64_t parts : {1, 2, 8}) {
      INFO(name << " in " << parts);
      CHECK(relative_error(gradient(parts, true), x.grad()) < 1e-6);
      CHECK((relative_error(gradient(parts, false), x.grad()) > 0.1) == (parts > 1));
    }
  }
}

TEST_CASE(
    "a class that is neither there nor predicted costs nothing, and logits without bounds give finite gradients") {
  const Loss loss = loss_named("dice");
  at::Tensor logits = at::full({2, 1, 4, 4}, -200.0).set_requires_grad(true);
  const at::Tensor value = loss.per_sample(logits, at::zeros({2, 1, 4, 4}));
  CHECK(value[0].item<double>() == Approx(0).margin(1e-6));
  value.sum().backward();
  CHECK(logits.grad().isfinite().all().item<bool>());
  CHECK(loss.per_sample(at::full({2, 1, 4, 4}, 200.0), at::ones({2, 1, 4, 4}))[1].item<double>() ==
        Approx(0).margin(1e-6));
  CHECK(loss.per_sample(at::full({2, 1, 4, 4}, -200.0), at::ones({2, 1, 4, 4}))[1].item<double>() == Approx(1));
}

TEST_CASE("weights act on the entropy beside Dice, and no constant has a lower loss than the one named") {
  const at::Tensor logits = test::keyed_normal({2, 2, 4, 4}, 1), masks = (logits > 0.3).to(at::kFloat);
  const at::Tensor plain = loss_named("bce_dice").per_sample(logits, masks);
  const Loss weighted = loss_named("bce_dice", {1, 3});
  LossOptions entropy;
  const at::Tensor more = Loss(entropy, Task::segmentation, {1, 3}).per_sample(logits, masks) -
                          Loss(entropy, Task::segmentation, {}).per_sample(logits, masks);
  CHECK(relative_error(weighted.per_sample(logits, masks), plain + more) < 1e-6);

  // Of 20 pixels the class has three, of another set ten.
  for (const double wanted : {3.0, 10.0}) {
    const LabelCounts counts{{wanted}, {20 - wanted}, 20};
    const at::Tensor pixels = (at::arange(20, at::kDouble) < wanted).to(at::kDouble).view({1, 1, 20, 1});
    for (const std::string name : {"dice", "bce_dice"}) {
      const Loss loss = loss_named(name);
      double best = 1e300;
      for (double p = 0.025; p < 0.9751; p += 0.0005)
        best = std::min(
            best, loss.per_sample(at::full({1, 1, 20, 1}, std::log(p / (1 - p)), at::kDouble), pixels).item<double>());
      CHECK(loss.of_frequencies(counts, counts) <= best + 1e-9);
      CHECK(loss.of_frequencies(counts, counts) == Approx(best).epsilon(1e-5));
    }
  }
  // Beside several classes: of the frequencies.
  const LabelCounts three{{10, 6, 4}, {10, 14, 16}, 20};
  const at::Tensor pixels = at::cat({at::zeros({10}), at::full({6}, 1), at::full({4}, 2)}).view({1, 1, 20, 1});
  const at::Tensor masks_of_two = at::cat({pixels.eq(1), pixels.eq(2)}, 1).to(at::kDouble);
  const at::Tensor answer = at::tensor({0.5, 0.3, 0.2}, at::kDouble).log().view({1, 3, 1, 1}).expand({1, 3, 20, 1});
  const Loss both = loss_named("ce_dice");
  CHECK(both.of_frequencies(three, three) == Approx(both.per_sample(answer, masks_of_two).item<double>()));
}
