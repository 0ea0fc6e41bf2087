#include "dtrain/optim/optimizer.hpp"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"
#include "unit/optim/ten_steps.hpp"

using namespace dtrain;

static bool step(Optimizer& optimizer, const at::Tensor& gradients, double rate) {
  optimizer.begin_update(rate);
  optimizer.update({0, gradients.numel()}, gradients);
  return optimizer.not_finite().item<int32_t>() == 0;
}

// Every formula that exists.
static std::vector<OptimizerOptions> all_kinds() {
  std::vector<OptimizerOptions> all;
  for (const OptimizerKind* kind : optimizers()) {
    OptimizerOptions options = optimizer_defaults(*kind);
    options.weight_decay = 0.1;
    all.push_back(options);
    if (!reads(*kind, "momentum")) continue;
    options.momentum = 0.9;
    for (const bool nesterov : {false, true}) {
      options.nesterov = nesterov;
      all.push_back(options);
    }
  }
  return all;
}

static std::vector<float> gradient_of(int update) {
  const auto f = static_cast<float>(update);
  return {0.1F * (f + 1), -0.3F, 0.05F * f * f - 0.2F, 0.01F};
}

static double rate_of(int update) { return update < 3 ? 0.1 : 0.05; }

// Five updates of four parameters, the rate halved after three: the same as in the numbers below, which
// torch.optim 2.11 gave.
static std::vector<float> five_updates(const OptimizerOptions& options) {
  at::Tensor w = at::tensor({1.0F, -2.0F, 0.5F, 0.0F});
  Optimizer optimizer(options, w);
  optimizer.set_parts({{.range = {0, 4}, .weight_decay = options.weight_decay, .adapts = true}});
  for (int i = 0; i < 5; ++i) {
    const std::vector<float> gradient = gradient_of(i);
    step(optimizer, at::tensor(gradient), rate_of(i));
  }
  CHECK(optimizer.updates() == 5);
  return {w.const_data_ptr<float>(), w.const_data_ptr<float>() + 4};
}

static void check_against(const OptimizerOptions& options, const std::vector<float>& torch) {
  const std::vector<float> ours = five_updates(options);
  for (size_t i = 0; i < torch.size(); ++i) CHECK(ours[i] == Approx(torch[i]).epsilon(2e-6).margin(1e-7));
}

TEST_CASE("sgd, with momentum, Nesterov and weight decay, updates as PyTorch does") {
  OptimizerOptions sgd;
  sgd.kind = optimizer_kind("sgd");
  check_against(sgd, {0.89500004F, -1.88000011F, 0.49249998F, -0.004F});
  sgd.momentum = 0.9;
  check_against(sgd, {0.79393452F, -1.71868849F, 0.55434346F, -0.00937705F});
  sgd.nesterov = true;
  sgd.weight_decay = 0.01;
  check_against(sgd, {0.69777197F, -1.60319602F, 0.53461885F, -0.01240013F});
}

TEST_CASE("parts have their own rate and weight decay, as if each were alone, in any ranges") {
  constexpr int64_t kDone = 3;
  for (const OptimizerOptions& options : all_kinds()) {
    INFO(options.kind->name);
    const at::Tensor start = at::arange(100, at::kFloat) / 50 - 1, gradients = at::arange(100, at::kFloat).sin();
    const std::vector<Optimizer::Part> parts = {{.range = {0, 16}, .weight_decay = options.weight_decay},
                                                {.range = {16, 32}, .weight_decay = 0},
                                                {.range = {32, 48}, .weight_decay = 0},
                                                {.range = {48, 80}, .rate = 0.5, .weight_decay = 0.2},
                                                {.range = {80, 100}, .weight_decay = 0.2, .begun_at = 1}};
    at::Tensor wanted = start.clone();
    for (const Optimizer::Part& part : parts) {
      OptimizerOptions alone = options;
      alone.weight_decay = part.weight_decay;
      Optimizer optimizer(alone, wanted.slice(0, part.range.begin, part.range.end));
      optimizer.set_updates(kDone - part.begun_at);
      for (int i = 0; i < 2; ++i)
        step(optimizer, gradients.slice(0, part.range.begin, part.range.end), 0.1 * part.rate);
    }
    const auto updated = [&](const std::vector<Range>& ranges) {
      at::Tensor w = start.clone();
      Optimizer optimizer(options, w);
      optimizer.set_parts(parts);
      optimizer.set_updates(kDone);
      for (int i = 0; i < 2; ++i) {
        optimizer.begin_update(0.1);
        for (const Range& range : ranges) optimizer.update(range, gradients);
      }
      return w;
    };
    CHECK(at::equal(updated({{0, 100}}), wanted));
    CHECK(at::equal(updated({{40, 90}, {90, 100}, {0, 20}, {20, 40}}), wanted));
  }
}

TEST_CASE("adam and adamw update as PyTorch does") {
  OptimizerOptions adam;
  check_against(adam, {0.61129928F, -1.60000002F, 0.75273812F, -0.39999962F});
  adam.weight_decay = 0.01;
  adam.beta1 = 0.8;
  adam.beta2 = 0.99;
  check_against(adam, {0.59959608F, -1.60016119F, 0.72771686F, -0.39258185F});
  OptimizerOptions adamw;
  adamw.kind = optimizer_kind("adamw");
  adamw.weight_decay = 0.01;
  check_against(adamw, {0.6079179F, -1.59263706F, 0.75016856F, -0.39937505F});
}

TEST_CASE("adagrad and adadelta update as PyTorch does") {
  const OptimizerOptions adagrad = optimizer_defaults(*optimizer_kind("adagrad"));
  CHECK(adagrad.eps == 1e-10);
  check_against(adagrad, {0.66015404F, -1.72419357F, 0.58156723F, -0.2758064F});
  const OptimizerOptions adadelta = optimizer_defaults(*optimizer_kind("adadelta"));
  CHECK(adadelta.eps == 1e-6);
  check_against(adadelta, {0.99818635F, -1.99869299F, 0.5001328F, -0.00124442F});
}

// Algorithm 2 of the paper, in float64.
static std::vector<float> lion_of_the_paper(const OptimizerOptions& o) {
  std::vector<double> w = {1.0, -2.0, 0.5, 0.0}, m(4, 0.0);
  for (int update = 0; update < 5; ++update) {
    const std::vector<float> gradient = gradient_of(update);
    for (size_t i = 0; i < 4; ++i) {
      const double g = gradient[i], c = o.beta1 * m[i] + (1 - o.beta1) * g;
      const double sign = c > 0 ? 1 : c < 0 ? -1 : 0;
      w[i] -= rate_of(update) * (sign + o.weight_decay * w[i]);
      m[i] = o.beta2 * m[i] + (1 - o.beta2) * g;
    }
  }
  return {w.begin(), w.end()};
}

TEST_CASE("lion updates as its paper does") {
  OptimizerOptions lion = optimizer_defaults(*optimizer_kind("lion"));
  CHECK(lion.beta2 == 0.99);
  check_against(lion, {0.6F, -1.6F, 0.7F, -0.4F});  // the third gradient changes its sign after three updates
  check_against(lion, lion_of_the_paper(lion));
  lion.weight_decay = 0.1;
  check_against(lion, lion_of_the_paper(lion));
  lion.beta1 = 0.99;
  lion.beta2 = 0.9;
  check_against(lion, lion_of_the_paper(lion));
}

TEST_CASE("ten updates of float32 are those of PyTorch and timm in float64, in any ranges of whole tensors") {
  for (const test::TenSteps& steps : test::ten_steps()) {
    INFO(steps.name);
    for (const std::vector<Range>& ranges : {std::vector<Range>{{0, 9}}, std::vector<Range>{{6, 9}, {0, 6}}}) {
      const at::Tensor w = at::tensor(at::ArrayRef<double>(test::TenSteps::kStart)).to(at::kFloat);
      Optimizer optimizer(steps.options, w);
      optimizer.set_parts({{.range = {0, 6}, .weight_decay = test::TenSteps::kDecay, .adapts = true},
                           {.range = {6, 9}, .weight_decay = 0}});
      for (int64_t update = 1; update <= 10; ++update) {
        optimizer.begin_update(test::TenSteps::rate(update));
        const std::vector<double> gradients = test::TenSteps::gradients(update);
        for (const Range& range : ranges)
          optimizer.update(range, at::tensor(at::ArrayRef<double>(gradients)).to(at::kFloat));
      }
      for (size_t i = 0; i < 9; ++i)
        CHECK(w[static_cast<int64_t>(i)].item<float>() == Approx(steps.wanted[i]).epsilon(1e-5).margin(1e-6));
    }
  }
}

TEST_CASE("where norms count, part of a tensor is refused, and zero weights take the plain step") {
  for (const OptimizerKind* kind : optimizers()) {
    if (!kind->trust_ratio) continue;
    INFO(kind->name);
    const at::Tensor zeros = at::zeros({4}), alone = at::zeros({4});
    Optimizer adapting(optimizer_defaults(*kind), zeros), plain(optimizer_defaults(*kind), alone);
    adapting.set_parts({{.range = {0, 4}, .adapts = true}});
    for (Optimizer* optimizer : {&adapting, &plain}) CHECK(step(*optimizer, at::ones({4}), 0.1));
    CHECK(at::equal(zeros, alone));
    CHECK_FALSE(zeros.eq(0).any().item<bool>());
    CHECK_THROWS_AS(adapting.update({0, 2}, at::ones({4})), InternalError);
  }
}

TEST_CASE("an optimizer reads the keys of its row and no others, and has the states that it names") {
  const std::vector<std::pair<std::string, void (*)(OptimizerOptions&)>> changes = {
      {"momentum", [](OptimizerOptions& o) { o.momentum = 0.5; }},
      {"nesterov", [](OptimizerOptions& o) { o.nesterov = true; }},
      {"betas", [](OptimizerOptions& o) { o.beta1 = 0.999; }},  // changes a sign, which is all that some formulas use
      {"betas", [](OptimizerOptions& o) { o.beta2 = 0.5; }},
      {"eps", [](OptimizerOptions& o) { o.eps = 0.1; }},
      {"rho", [](OptimizerOptions& o) { o.rho = 0.5; }},
      {"trust_coefficient", [](OptimizerOptions& o) { o.trust_coefficient = 0.5; }}};
  for (const OptimizerKind* kind : optimizers()) {
    OptimizerOptions plain = optimizer_defaults(*kind);
    plain.momentum = 0.9;  // so that Nesterov's form differs
    const std::vector<float> before = five_updates(plain);
    for (const auto& [key, change] : changes) {
      OptimizerOptions changed = plain;
      change(changed);
      INFO(kind->name << ", " << key);
      CHECK((five_updates(changed) != before) == reads(*kind, key));
    }
    for (const std::string& key : kind->keys)
      CHECK(std::any_of(changes.begin(), changes.end(), [&](const auto& change) { return change.first == key; }));
    const Optimizer optimizer(plain, at::zeros({4}));
    REQUIRE(optimizer.state().size() == state_names(plain).size());
    for (size_t i = 0; i < optimizer.state().size(); ++i) CHECK(optimizer.state()[i].name == state_names(plain)[i]);
  }
}

TEST_CASE("weight decay is added to the gradient, or shrinks the weights where the row says so") {
  for (const OptimizerKind* kind : optimizers()) {
    INFO(kind->name);
    OptimizerOptions options;
    options.kind = kind;
    options.weight_decay = 0.5;
    at::Tensor w = at::ones({1});
    Optimizer optimizer(options, w);
    step(optimizer, at::full({1}, -0.5F), 0.1);  // the two cancel each other where they are added up
    CHECK((w.item<float>() == 1) == !kind->decoupled_decay);
  }
}

TEST_CASE("an element's update does not depend on its neighbours, and zeros stay zero") {
  for (const OptimizerOptions& options : all_kinds()) {
    at::Tensor alone = at::full({1}, 0.7F);
    at::Tensor among = at::zeros({1001});
    among[500] = 0.7F;
    Optimizer first(options, alone);
    Optimizer second(options, among);
    for (int i = 1; i < 4; ++i) {
      step(first, at::full({1}, 0.1F * static_cast<float>(i)), 0.01);
      at::Tensor gradient = at::zeros({1001});
      gradient[500] = 0.1F * static_cast<float>(i);
      step(second, gradient, 0.01);
    }
    CHECK(among[500].item<float>() == alone[0].item<float>());
    CHECK(among.slice(0, 0, 500).eq(0).all().item<bool>());
  }
}

TEST_CASE("restored state goes on to the same bits") {
  const OptimizerOptions options;
  at::Tensor through = at::full({3}, 1.0F);
  Optimizer whole(options, through);
  const auto gradient = [](int i) { return at::tensor({0.1F * static_cast<float>(i), -0.2F, 0.3F}); };
  for (int i = 0; i < 4; ++i) step(whole, gradient(i), 0.01);

  at::Tensor stopped = at::full({3}, 1.0F);
  Optimizer before(options, stopped);
  for (int i = 0; i < 2; ++i) step(before, gradient(i), 0.01);
  at::Tensor resumed = stopped.clone();
  Optimizer after(options, resumed);
  for (size_t i = 0; i < before.state().size(); ++i) after.state()[i].values.copy_(before.state()[i].values);
  after.set_updates(before.updates());
  for (int i = 2; i < 4; ++i) step(after, gradient(i), 0.01);
  CHECK(at::equal(resumed, through));
}

TEST_CASE("an update in several ranges, in any order, gives the bits of an update in one") {
  at::manual_seed(1);
  constexpr int64_t kCount = 1003;
  const at::Tensor start = at::randn({kCount});
  for (const OptimizerOptions& options : all_kinds()) {
    const at::Tensor together = start.clone();
    const at::Tensor apart = start.clone();
    Optimizer whole(options, together);
    Optimizer parts(options, apart);
    for (int i = 0; i < 3; ++i) {
      const at::Tensor gradient = at::randn({kCount});
      CHECK(step(whole, gradient, 0.01));
      parts.begin_update(0.01);
      parts.update({700, kCount}, gradient);
      for (int64_t at = 0; at < 33; ++at) parts.update({at, at + 1}, gradient);
      parts.update({33, 33}, gradient);
      parts.update({33, 700}, gradient);
      CHECK(parts.not_finite().item<int32_t>() == 0);
    }
    CHECK(at::equal(together, apart));
    for (size_t i = 0; i < whole.state().size(); ++i)
      CHECK(at::equal(whole.state()[i].values, parts.state()[i].values));
    CHECK(parts.updates() == 3);
  }
}

TEST_CASE("gradients are multiplied by the scale, and only read") {
  at::manual_seed(2);
  const at::Tensor gradient = at::randn({100});
  const at::Tensor kept = gradient.clone();
  for (const OptimizerOptions& options : all_kinds()) {
    const at::Tensor scaled = at::ones({100});
    const at::Tensor expected = at::ones({100});
    Optimizer first(options, scaled);
    Optimizer second(options, expected);
    first.begin_update(0.01);
    first.update({0, 100}, gradient, 0.3F);
    CHECK(first.not_finite().item<int32_t>() == 0);
    CHECK(step(second, gradient * 0.3F, 0.01));
    CHECK(at::equal(scaled, expected));
    CHECK(at::equal(gradient, kept));
  }
}

TEST_CASE("a gradient that is not finite is told, wherever it stands, and only within its range") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const OptimizerOptions& options : all_kinds())
    for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()})
      for (int64_t place = 0; place < 70; ++place) {
        at::Tensor gradient = at::full({70}, 1e-40F);
        gradient[69 - place] = 1e15F;
        gradient[place] = bad;
        Optimizer optimizer(options, at::ones({70}));
        optimizer.begin_update(0.01);
        optimizer.update({0, place}, gradient);
        optimizer.update({place + 1, 70}, gradient);
        REQUIRE(optimizer.not_finite().item<int32_t>() == 0);
        optimizer.update({place, place + 1}, gradient);
        REQUIRE_FALSE(optimizer.not_finite().item<int32_t>() == 0);
        optimizer.begin_update(0.01);
        REQUIRE(optimizer.not_finite().item<int32_t>() == 0);
        Optimizer another(options, at::ones({70}));
        REQUIRE_FALSE(step(another, gradient, 0.01));
      }
}

TEST_CASE("an updated weight that overflows is told") {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (OptimizerOptions options : all_kinds()) {
    options.weight_decay = 0;
    at::Tensor w = at::zeros({40});
    w[17] = -kMost;
    Optimizer optimizer(options, w);
    CHECK(step(optimizer, at::zeros({40}), 3e37));
    CHECK_FALSE(step(optimizer, at::ones({40}), 3e37));
  }
}

TEST_CASE("a range beyond the parameters and gradients of another kind are refused") {
  Optimizer optimizer({}, at::zeros({4}));
  optimizer.begin_update(0.1);
  CHECK_THROWS_AS(optimizer.update({2, 5}, at::zeros({4})), InternalError);
  CHECK_THROWS_AS(optimizer.update({-1, 2}, at::zeros({4})), InternalError);
  CHECK_THROWS_AS(optimizer.update({0, 4}, at::zeros({5})), InternalError);
  CHECK_THROWS_AS(optimizer.update({0, 4}, at::zeros({4}, at::kDouble)), InternalError);
}
