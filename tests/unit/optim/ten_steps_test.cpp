#include "unit/optim/ten_steps.hpp"

#include "support/catch.hpp"

using namespace dtrain;

namespace dtrain::test {

struct Numbers {
  std::string name;
  std::array<double, 9> wanted;
};

static OptimizerOptions options_named(const std::string& name) {
  OptimizerOptions o = optimizer_defaults(*optimizer_kind(name.substr(0, name.find(' '))));
  if (name == "sgd momentum" || name == "sgd nesterov") o.momentum = 0.9;
  o.nesterov = name == "sgd nesterov";
  if (name == "adam") o.beta1 = 0.8, o.beta2 = 0.99;
  if (name == "rmsprop momentum") o.rho = 0.9, o.eps = 1e-3, o.momentum = 0.9;
  if (name == "lars") o.trust_coefficient = 0.02, o.eps = 1e-3;
  if (name == "lamb") o.beta2 = 0.99, o.eps = 1e-3;
  return o;
}

std::vector<TenSteps> ten_steps() {
  const std::vector<Numbers> numbers = {
#include "unit/optim/optimizer_numbers.inc"
  };
  std::vector<TenSteps> all;
  for (const auto& [name, wanted] : numbers) all.push_back({name, options_named(name), wanted});
  return all;
}

}  // namespace dtrain::test

namespace {

struct Tensor {
  std::vector<double> weights;
  double weight_decay;
  bool adapts;
  std::vector<double> first = std::vector<double>(weights.size()), second = first;
};

template <typename Rule>
void apply(const Rule& rule, Tensor& t, const double* gradients) {
  if constexpr (Rule::kTrust) {
    double weights = 0, measured = 0;
    for (size_t i = 0; i < t.weights.size(); ++i) {
      const double found = rule.measure(gradients[i], t.weights[i], t.first[i], t.second[i]);
      weights += t.weights[i] * t.weights[i];
      measured += found * found;
    }
    const double ratio = t.adapts ? trust_ratio(rule, weights, measured) : 1;
    for (size_t i = 0; i < t.weights.size(); ++i) rule(gradients[i], t.weights[i], t.first[i], t.second[i], ratio);
  } else {
    for (size_t i = 0; i < t.weights.size(); ++i) rule(gradients[i], t.weights[i], t.first[i], t.second[i]);
  }
}

}  // namespace

TEST_CASE("in float64 ten updates by each rule are those of PyTorch and timm to 1e-10") {
  for (const OptimizerKind* kind : optimizers()) {
    const auto steps = test::ten_steps();
    CHECK(std::any_of(steps.begin(), steps.end(), [&](const auto& one) { return one.options.kind == kind; }));
  }
  for (const test::TenSteps& steps : test::ten_steps()) {
    INFO(steps.name);
    const auto& start = test::TenSteps::kStart;
    std::vector<Tensor> tensors = {{{start.begin(), start.begin() + 6}, test::TenSteps::kDecay, true},
                                   {{start.begin() + 6, start.end()}, 0, false}};
    for (int64_t update = 1; update <= 10; ++update) {
      const std::vector<double> gradients = test::TenSteps::gradients(update);
      size_t first = 0;
      for (Tensor& tensor : tensors) {
        with_rule(steps.options.kind->plan(steps.options).rule,
                  update_factors(steps.options, test::TenSteps::rate(update), tensor.weight_decay, update),
                  [&](const auto& rule) { apply(rule, tensor, gradients.data() + first); });
        first += tensor.weights.size();
      }
    }
    for (size_t i = 0; i < start.size(); ++i)
      CHECK(tensors[i < 6 ? 0 : 1].weights[i < 6 ? i : i - 6] == Approx(steps.wanted[i]).epsilon(1e-10));
  }
}

TEST_CASE("an optimizer's row says whether its rule looks at norms") {
  for (const OptimizerKind* kind : optimizers()) {
    bool trust = false;
    with_rule(kind->plan(optimizer_defaults(*kind)).rule, FactorsOf<double>{},
              [&](const auto& rule) { trust = rule.kTrust; });
    CHECK(kind->trust_ratio == trust);
  }
}
