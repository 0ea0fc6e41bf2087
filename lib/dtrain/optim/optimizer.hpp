#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/optim/options.hpp"

namespace dtrain {

/// Updates all parameters at once: parameters, gradients and state are flat tensors of one layout, so that an update is
/// a few passes over memory whatever the number of layers. Every update is PyTorch's formula for the optimizer of that
/// name, element by element, hence independent of ranks, devices' count and layout. Values at gaps stay zero.
class Optimizer {
 public:
  /// `parameters`: float32, flat; shared memory with the network's parameters, kept alive.
  Optimizer(const OptimizerOptions& options, at::Tensor parameters);

  /// One update with `gradients` (same size; spent: weight decay is added in place) at `learning_rate`.
  void step(const at::Tensor& gradients, double learning_rate);

  /// State beside the parameters, each flat and of their size, in a fixed order: sgd with momentum: momentum_buffer;
  /// adam, adamw: exp_avg, exp_avg_sq; adagrad: sum; adadelta: square_avg, acc_delta. Names are PyTorch's.
  struct State {
    std::string name;
    at::Tensor values;
  };
  const std::vector<State>& state() const { return state_; }

  /// Updates done, which the bias correction of adam and adamw counts. Part of a checkpoint beside state().
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

 private:
  at::Tensor& values(size_t i) { return state_[i].values; }
  void sgd(const at::Tensor& g, double lr);
  void adam(const at::Tensor& g, double lr);
  void adagrad(const at::Tensor& g, double lr);
  void adadelta(const at::Tensor& g, double lr);

  OptimizerOptions options_;
  at::Tensor parameters_;
  std::vector<State> state_;
  int64_t updates_ = 0;
};

/// Names of the state tensors of an optimizer, in the order of Optimizer::state().
std::vector<std::string> state_names(const OptimizerOptions& options);

}  // namespace dtrain
