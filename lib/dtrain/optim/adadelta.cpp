#include "dtrain/optim/options.hpp"

namespace dtrain {

/// Zeiler, "ADADELTA: an adaptive learning rate method", 2012, as torch.optim.Adadelta.
extern const OptimizerKind kAdadelta = {
    .name = "adadelta",
    .keys = {"eps", "rho"},
    .defaults = [](OptimizerOptions& o) { o.eps = 1e-6; },
    .plan = [](const OptimizerOptions&) -> UpdatePlan {
      return {UpdateRule::adadelta, {"square_avg", "acc_delta"}};
    },
    .factors = [](const OptimizerOptions& o, double rate, int64_t) -> FactorsOf<double> {
      return {.rate = rate, .square_keep = o.rho, .square_in = 1 - o.rho, .eps = o.eps};
    },
};

}  // namespace dtrain
