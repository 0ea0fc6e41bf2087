#include "dtrain/optim/options.hpp"

namespace dtrain {

/// Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023, as in their own code. Each weight moves
/// by the full rate, so the paper advises a rate 3 to 10 times smaller than usual, and a weight decay larger by the
/// same factor.
extern const OptimizerKind kLion = {
    .name = "lion",
    .keys = {"betas"},
    .defaults = [](OptimizerOptions& o) { o.beta2 = 0.99; },
    .decoupled_decay = true,
    .plan = [](const OptimizerOptions&) -> UpdatePlan {
      return {UpdateRule::lion, {"exp_avg"}};
    },
    .factors = [](const OptimizerOptions& o, double rate, int64_t) -> FactorsOf<double> {
      return {.rate = rate, .mean_in = 1 - o.beta2, .direction_in = 1 - o.beta1};
    },
};

}  // namespace dtrain
