#pragma once
#include <cstdint>
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
  independent,        ///< a sigmoid of each
  of_one,             ///< a softmax over the classes, of which one is true; for masks over background and classes
  of_one_of_several,  ///< of_one for several classes, independent for a single one
};

/// A loss as the rest of the program sees it. Its file defines one beside its formulas, losses.cpp lists them, and
/// configuration, checks and documentation follow. The functions are Loss's (loss.hpp), which says what they do.
struct LossKind {
  std::string name;  ///< as loss.name has it
  std::string long_name = {};
  /// What the documentation of loss.name says about it, a sentence with a full stop; absent: nothing.
  std::string (*doc)() = nullptr;
  Probabilities probabilities = Probabilities::independent;
  std::vector<Task> tasks = {};               ///< that it serves
  std::vector<std::string> keys = {};         ///< of loss.*, besides those that every loss has
  std::vector<std::string> also_called = {};  ///< by other programs: for suggestions
  /// Loss::mean_part; null: the loss has no such part.
  at::Tensor (*per_sample)(const LossTerms& terms, const at::Tensor& logits, const at::Tensor& targets) = nullptr;
  /// Loss::sums and Loss::of_sums; both null: the loss is a mean over samples and needs nothing of their batch.
  at::Tensor (*sums)(const LossTerms& terms, const at::Tensor& logits, const at::Tensor& targets) = nullptr;
  at::Tensor (*of_sums)(const at::Tensor& sums) = nullptr;
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

/// True if the loss needs sums over a whole step (LossKind::sums) that has more passes than one, `passes` over all
/// logical ranks: they come from forward passes of their own.
bool adds_up_first(const LossOptions& options, Task task, int64_t passes);

/// True where a network of this loss has a logit for background too, before those of the classes, because each pixel is
/// one of them. `outputs`: classes or logits.
bool has_background(const LossKind& kind, Task task, int64_t outputs);

/// Logits per picture, for segmentation per pixel, of a network for these classes.
int64_t logits_for(const LossOptions& options, Task task, int64_t classes);

/// Why the loss does not fit the task, as a sentence; "" if it does.
std::string wrong_task(const LossKind& kind, Task task);

}  // namespace dtrain
