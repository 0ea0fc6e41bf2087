#include "dtrain/optim/options.hpp"

namespace dtrain {

/// Tieleman and Hinton, "Lecture 6.5: RMSprop", Coursera, 2012, as torch.optim.RMSprop, whose alpha is rho here.
/// Without PyTorch's `centered`, which with momentum keeps three values of state for each weight.
extern const OptimizerKind kRmsprop = {
    .name = "rmsprop",
    .keys = {"momentum", "eps", "rho"},
    .defaults = [](OptimizerOptions& o) { o.rho = 0.99; },
    .plan = [](const OptimizerOptions& o) -> UpdatePlan {
      if (o.momentum == 0) return {UpdateRule::rmsprop, {"square_avg"}};
      return {UpdateRule::rmsprop_momentum, {"square_avg", "momentum_buffer"}};
    },
    .factors = [](const OptimizerOptions& o, double rate, int64_t) -> FactorsOf<double> {
      return {.rate = rate, .momentum = o.momentum, .square_keep = o.rho, .square_in = 1 - o.rho, .eps = o.eps};
    },
};

}  // namespace dtrain
