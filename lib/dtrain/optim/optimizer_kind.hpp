#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/rows.hpp"
#include "dtrain/device/update_rules.hpp"

namespace dtrain {

struct OptimizerOptions;

/// What an optimizer does to each element, and what state it keeps for it.
struct UpdatePlan {
  UpdateRule rule;                       ///< its formula, for CPU and GPU alike (device/update_rules.hpp)
  std::vector<std::string> states = {};  ///< PyTorch's names of UpdateSlices::first and second, as far as it uses them
};

/// An optimizer as the rest of the program sees it. Its file defines one, optimizers.cpp lists them, and
/// configuration, checks, documentation and checkpoints follow.
struct OptimizerKind {
  std::string name;                    ///< as optimizer.name has it
  std::vector<std::string> keys = {};  ///< of optimizer.*, besides those that every optimizer has
  /// Sets the defaults of optimizer.* that are its own; absent: all are those of OptimizerOptions.
  void (*defaults)(OptimizerOptions& options) = nullptr;
  bool decoupled_decay = false;  ///< weight decay shrinks the weights; else it is added to the gradient
  bool trust_ratio = false;      ///< its rule has kTrust: the step of a tensor depends on the tensor's norms
  UpdatePlan (*plan)(const OptimizerOptions& options) = nullptr;
  /// The factors of update number `updates`, the first being 1, without clipping and weight decay.
  FactorsOf<double> (*factors)(const OptimizerOptions& options, double learning_rate, int64_t updates) = nullptr;
};

/// All of them, in the order in which they are offered.
const RowList<OptimizerKind>& optimizers();
const OptimizerKind& default_optimizer();
/// Never null: throws InternalError if no optimizer has that name.
inline const OptimizerKind* optimizer_kind(const std::string& name) { return row_named(optimizers(), name); }

}  // namespace dtrain
