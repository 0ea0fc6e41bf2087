#include "dtrain/optim/optimizer_kind.hpp"

namespace dtrain {

// Each is defined in its own file.
extern const OptimizerKind kSgd, kAdam, kAdamW, kAdagrad, kAdadelta, kLion;

const RowList<OptimizerKind>& optimizers() {
  static const RowList<OptimizerKind> all = {&kSgd, &kAdam, &kAdamW, &kAdagrad, &kAdadelta, &kLion};
  return all;
}

const OptimizerKind& default_optimizer() { return kAdam; }

}  // namespace dtrain
