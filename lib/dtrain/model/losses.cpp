#include <algorithm>

#include "dtrain/model/options.hpp"

namespace dtrain {

// Each is defined in its own file.
extern const LossKind kBce, kCrossEntropy, kFocal, kDiceLoss, kBceDice, kCeDice;

const RowList<LossKind>& losses() {
  static const RowList<LossKind> all = {&kBce, &kCrossEntropy, &kFocal, &kDiceLoss, &kBceDice, &kCeDice};
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

bool adds_up_first(const LossOptions& options, Task task, int64_t passes) {
  return loss_in_use(options, task).sums != nullptr && options.sums_over == SumsOver::global && passes > 1;
}

bool has_background(const LossKind& kind, Task task, int64_t outputs) {
  return task == Task::segmentation && (kind.probabilities == Probabilities::of_one ||
                                        (kind.probabilities == Probabilities::of_one_of_several && outputs > 1));
}

int64_t logits_for(const LossOptions& options, Task task, int64_t classes) {
  return classes + (has_background(loss_in_use(options, task), task, classes) ? 1 : 0);
}

std::string wrong_task(const LossKind& kind, Task task) {
  if (kind.serves(task)) return "";
  return "loss.name " + kind.name + " does not fit task " + name_of(task) + ", which wants " + natural_loss(task).name;
}

}  // namespace dtrain
