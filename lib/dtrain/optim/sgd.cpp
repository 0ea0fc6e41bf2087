#include "dtrain/optim/options.hpp"

namespace dtrain {

/// Stochastic gradient descent, with momentum if that is above 0, as torch.optim.SGD.
extern const OptimizerKind kSgd = {
    .name = "sgd",
    .keys = {"momentum", "nesterov"},
    .plan = [](const OptimizerOptions& o) -> UpdatePlan {
      if (o.momentum == 0) return {UpdateRule::sgd};
      return {o.nesterov ? UpdateRule::nesterov : UpdateRule::momentum, {"momentum_buffer"}};
    },
    .factors = [](const OptimizerOptions& o, double rate, int64_t) -> FactorsOf<double> {
      return {.rate = rate, .momentum = o.momentum};
    },
};

}  // namespace dtrain
