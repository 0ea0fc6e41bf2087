#include <algorithm>

#include "dtrain/optim/options.hpp"

namespace dtrain {

// Each is defined in its own file.
extern const OptimizerKind kSgd, kAdam, kAdamW, kAdagrad, kAdadelta, kLion, kLars, kLamb, kRmsprop;

const RowList<OptimizerKind>& optimizers() {
  static const RowList<OptimizerKind> all = {&kSgd,  &kAdam, &kAdamW, &kAdagrad, &kAdadelta,
                                             &kLion, &kLars, &kLamb,  &kRmsprop};
  return all;
}

const OptimizerKind& default_optimizer() { return kAdam; }

double ema_decay(const EmaOptions& options, int64_t updates) {
  const auto count = static_cast<double>(updates);
  return std::min(options.decay, (1 + count) / (10 + count));
}

FactorsOf<double> update_factors(const OptimizerOptions& options, double rate, double weight_decay, int64_t updates) {
  FactorsOf<double> factors = options.kind->factors(options, rate, updates);
  factors.weight_decay = weight_decay;
  if (options.kind->decoupled_decay)
    factors.keep = 1 - rate * weight_decay;
  else
    factors.decay = weight_decay;
  return factors;
}

}  // namespace dtrain
