#include "dtrain/optim/options.hpp"

namespace dtrain {

/// Duchi, Hazan and Singer, "Adaptive subgradient methods", JMLR 2011, as torch.optim.Adagrad.
extern const OptimizerKind kAdagrad = {
    .name = "adagrad",
    .keys = {"eps"},
    .defaults = [](OptimizerOptions& o) { o.eps = 1e-10; },
    .plan = [](const OptimizerOptions&) -> UpdatePlan {
      return {UpdateRule::adagrad, {"sum"}};
    },
    .factors = [](const OptimizerOptions& o, double rate, int64_t) -> FactorsOf<double> {
      return {.rate = rate, .eps = o.eps};
    },
};

}  // namespace dtrain
