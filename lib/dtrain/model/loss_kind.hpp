#pragma once
#include <string>
#include <vector>

#include "dtrain/base/rows.hpp"
#include "dtrain/base/task.hpp"

namespace at {
class Tensor;
}

namespace dtrain {

struct LabelCounts;
struct LossOptions;
struct LossTerms;

/// How probabilities come from logits.
enum class Probabilities {
  independent,  ///< a sigmoid of each
  of_one,       ///< a softmax over the outputs, of which one is true
};

/// A loss as the rest of the program sees it. Its file defines one beside its formulas, losses.cpp lists them, and
/// configuration, checks and documentation follow. The two functions are Loss's (loss.hpp), which says what they do.
struct LossKind {
  std::string name;  ///< as loss.name has it
  std::string long_name = {};
  /// What the documentation of loss.name says about it, a sentence with a full stop; absent: nothing.
  std::string (*doc)() = nullptr;
  Probabilities probabilities = Probabilities::independent;
  std::vector<Task> tasks = {};               ///< that it serves
  std::vector<std::string> keys = {};         ///< of loss.*, besides those that every loss has
  std::vector<std::string> also_called = {};  ///< by other programs: for suggestions
  at::Tensor (*per_sample)(const LossTerms& terms, const at::Tensor& logits, const at::Tensor& targets) = nullptr;
  double (*of_frequencies)(const LossTerms& terms, const LabelCounts& known, const LabelCounts& judged) = nullptr;

  bool serves(Task task) const;
};

/// All of them, in the order in which they are offered. `auto` stands for the first that serves the task.
const RowList<LossKind>& losses();
/// Never null: throws InternalError if no loss has that name.
inline const LossKind* loss_kind(const std::string& name) { return row_named(losses(), name); }

/// The loss that `auto` stands for; the first one for a task that is not known yet.
const LossKind& natural_loss(Task task);

/// The loss that the options ask for.
const LossKind& loss_in_use(const LossOptions& options, Task task);

/// Why the loss does not fit the task, as a sentence; "" if it does.
std::string wrong_task(const LossKind& kind, Task task);

}  // namespace dtrain
