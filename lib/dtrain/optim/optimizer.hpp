#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/shards.hpp"
#include "dtrain/device/device.hpp"
#include "dtrain/optim/options.hpp"

namespace dtrain {

/// Updates the parameters: parameters, gradients and state are flat tensors of one layout, and an update is one pass
/// over memory, in whatever ranges the gradients become known. Every update is PyTorch's formula for the optimizer of
/// that name in float32, element by element, hence independent of ranks, devices' count, layout and ranges. Values in
/// gaps stay zero.
///
///   optimizer.begin_update(rate);
///   for (Range bucket : buckets) optimizer.update(bucket, gradients);
///   if (optimizer.not_finite().item<int32_t>() != 0) …
class Optimizer {
 public:
  /// `parameters`: float32, flat, contiguous, on `device`; shared memory with the network's parameters, kept alive.
  Optimizer(const OptimizerOptions& options, at::Tensor parameters, const Device& device = {});

  /// Elements that are updated alike.
  struct Part {
    Range range;
    double rate = 1;          ///< factor of the learning rate
    double weight_decay = 0;  ///< as OptimizerOptions::weight_decay
    int64_t begun_at = 0;     ///< updates() before their first, from which their bias corrections count
    bool adapts = false;      ///< it is one tensor, whose norms a rule with kTrust measures; else the ratio is 1
  };
  /// What holds from now on, instead of the options for all alike. Parts ascend and cover the parameters.
  void set_parts(const std::vector<Part>& parts);

  /// Begins an update: counts it and fixes its rate. Then update() for ranges that together cover the parameters once.
  void begin_update(double learning_rate);
  /// Updates the elements [range.begin, range.end) of the parameters and of the state; a rule with kTrust wants parts
  /// that adapt whole. `gradients`: as the parameters;
  /// only the range is read, each value multiplied by `gradient_scale` first. May be called on a different thread from
  /// begin_update(), one at a time, ordered by the caller. Runs no LibTorch operator: tensors' version counters stay.
  /// On a GPU the work is issued to the calling thread's stream.
  void update(Range range, const at::Tensor& gradients, float gradient_scale = 1);

  /// int32 [1] on the device: 1 when a gradient or an updated parameter of any update() since begin_update() is not
  /// finite, else 0; all elements are updated in any case.
  const at::Tensor& not_finite() const { return not_finite_; }

  /// State besides the parameters, each flat and of their size, in the order of UpdatePlan::states. Names are
  /// PyTorch's.
  struct State {
    std::string name;
    at::Tensor values;
  };
  const std::vector<State>& state() const { return state_; }

  /// Number of updates done, which bias corrections need. Part of a checkpoint beside state().
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

 private:
  void update_part(const Part& part, Range range, const at::Tensor& gradients, const UpdateFactors& factors);

  OptimizerOptions options_;
  UpdateRule rule_;
  Device device_;
  at::Tensor parameters_;
  at::Tensor not_finite_;  // int32 [1] on the device, 1 once something is
  at::Tensor sums_;        // FlatMath::measure()'s, of the part that is updated; undefined for rules without kTrust
  std::vector<State> state_;
  std::vector<Part> parts_;             // neighbours differ
  std::vector<UpdateFactors> factors_;  // of each, for the update that is under way
  int64_t updates_ = 0;
};

/// Names of the state tensors of an optimizer, in the order of Optimizer::state().
std::vector<std::string> state_names(const OptimizerOptions& options);

}  // namespace dtrain
