#include <cmath>

#include "dtrain/optim/options.hpp"

namespace dtrain {

/// You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020, with φ(x) = x as
/// in timm and NVIDIA's. As in NVIDIA's biases and norms take their direction as it is, without a ratio of norms.
extern const OptimizerKind kLamb = {
    .name = "lamb",
    .keys = {"betas", "eps"},
    .defaults = [](OptimizerOptions& o) { o.eps = 1e-6; },
    .decoupled_decay = true,
    .trust_ratio = true,
    .plan = [](const OptimizerOptions&) -> UpdatePlan {
      return {UpdateRule::lamb, {"exp_avg", "exp_avg_sq"}};
    },
    .factors = [](const OptimizerOptions& o, double rate, int64_t updates) -> FactorsOf<double> {
      const auto count = static_cast<double>(updates);
      return {.rate = rate,
              .mean_in = 1 - o.beta1,
              .square_keep = o.beta2,
              .square_in = 1 - o.beta2,
              .mean_correction = 1 - std::pow(o.beta1, count),
              .root_correction = std::sqrt(1 - std::pow(o.beta2, count)),
              .eps = o.eps};
    },
};

}  // namespace dtrain
