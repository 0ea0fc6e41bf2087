#include <algorithm>

#include "dtrain/model/options.hpp"

namespace dtrain {

// Each is defined in its own file.
extern const LossKind kBce, kCrossEntropy, kFocal;

const RowList<LossKind>& losses() {
  static const RowList<LossKind> all = {&kBce, &kCrossEntropy, &kFocal};
  return all;
}

bool LossKind::serves(Task task) const { return std::find(tasks.begin(), tasks.end(), task) != tasks.end(); }

const LossKind& natural_loss(Task task) {
  for (const LossKind* kind : losses())
    if (kind->serves(task)) return *kind;
  return *losses().front();
}

const LossKind& loss_in_use(const LossOptions& options, Task task) {
  return options.kind != nullptr ? *options.kind : natural_loss(task);
}

std::string wrong_task(const LossKind& kind, Task task) {
  if (kind.serves(task)) return "";
  return "loss.name " + kind.name + " does not fit task " + name_of(task) + ", which wants " + natural_loss(task).name;
}

}  // namespace dtrain
