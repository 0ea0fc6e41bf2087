#include "dtrain/optim/options.hpp"

namespace dtrain {

/// You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017. As in timm and NVIDIA's LARC the
/// rate stands outside of the momentum, and as in NVIDIA's recipes biases and norms take the plain step, without it.
extern const OptimizerKind kLars = {
    .name = "lars",
    .keys = {"momentum", "eps", "trust_coefficient"},
    .defaults = [](OptimizerOptions& o) { o.momentum = 0.9; },
    .trust_ratio = true,
    .plan = [](const OptimizerOptions&) -> UpdatePlan {
      return {UpdateRule::lars, {"momentum_buffer"}};
    },
    .factors = [](const OptimizerOptions& o, double rate, int64_t) -> FactorsOf<double> {
      return {.rate = rate, .momentum = o.momentum, .trust = o.trust_coefficient, .eps = o.eps};
    },
};

}  // namespace dtrain
