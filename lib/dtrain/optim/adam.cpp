#include <cmath>

#include "dtrain/optim/options.hpp"

namespace dtrain {

namespace {

UpdatePlan adam_plan(const OptimizerOptions&) { return {UpdateRule::adam, {"exp_avg", "exp_avg_sq"}}; }

FactorsOf<double> adam_factors(const OptimizerOptions& o, double rate, int64_t updates) {
  const auto count = static_cast<double>(updates);
  return {.rate = rate / (1 - std::pow(o.beta1, count)),
          .mean_in = 1 - o.beta1,
          .square_keep = o.beta2,
          .square_in = 1 - o.beta2,
          .root_correction = std::sqrt(1 - std::pow(o.beta2, count)),
          .eps = o.eps};
}

}  // namespace

/// Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015, as torch.optim.Adam.
extern const OptimizerKind kAdam = {
    .name = "adam",
    .keys = {"betas", "eps"},
    .plan = adam_plan,
    .factors = adam_factors,
};

/// Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019, as torch.optim.AdamW.
extern const OptimizerKind kAdamW = {
    .name = "adamw",
    .keys = {"betas", "eps"},
    .decoupled_decay = true,
    .plan = adam_plan,
    .factors = adam_factors,
};

}  // namespace dtrain
