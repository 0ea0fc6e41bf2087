#include "dtrain/optim/optimizer.hpp"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "dtrain/base/error.hpp"

namespace dtrain {

std::vector<std::string> state_names(const OptimizerOptions& options) {
  switch (options.name) {
    case OptimizerName::sgd:
      return options.momentum > 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>{};
    case OptimizerName::adam:
    case OptimizerName::adamw:
      return {"exp_avg", "exp_avg_sq"};
    case OptimizerName::adagrad:
      return {"sum"};
    case OptimizerName::adadelta:
      return {"square_avg", "acc_delta"};
  }
  return {};
}

Optimizer::Optimizer(const OptimizerOptions& options, at::Tensor parameters, const Device& device)
    : options_(options), device_(device), parameters_(std::move(parameters)) {
  check(parameters_.scalar_type() == at::kFloat && parameters_.is_contiguous(), "parameters are flat float32");
  not_finite_ = at::zeros({1}, parameters_.options().dtype(at::kInt).requires_grad(false));
  for (const std::string& name : state_names(options_)) state_.push_back({name, at::zeros_like(parameters_)});
}

void Optimizer::begin_update(double learning_rate) {
  const OptimizerOptions& o = options_;
  const auto rounded = [](double value) { return static_cast<float>(value); };
  const bool is_adam = o.name == OptimizerName::adam || o.name == OptimizerName::adamw;
  const auto count = static_cast<double>(++updates_);
  const double square_keep = is_adam ? o.beta2 : o.rho;
  factors_ = {};
  if (o.name == OptimizerName::adamw)
    factors_.keep = rounded(1 - learning_rate * o.weight_decay);
  else
    factors_.decay = rounded(o.weight_decay);
  factors_.rate = rounded(is_adam ? learning_rate / (1 - std::pow(o.beta1, count)) : learning_rate);
  factors_.momentum = rounded(o.momentum);
  factors_.mean_in = rounded(1 - o.beta1);
  factors_.square_keep = rounded(square_keep);
  factors_.square_in = rounded(1 - square_keep);
  if (is_adam) factors_.root_correction = rounded(std::sqrt(1 - std::pow(o.beta2, count)));
  factors_.eps = rounded(o.eps);
  not_finite_.zero_();
}

static UpdateRule rule_of(const OptimizerOptions& options) {
  switch (options.name) {
    case OptimizerName::sgd:
      if (options.momentum == 0) return UpdateRule::sgd;
      return options.nesterov ? UpdateRule::nesterov : UpdateRule::momentum;
    case OptimizerName::adam:
    case OptimizerName::adamw:
      return UpdateRule::adam;
    case OptimizerName::adagrad:
      return UpdateRule::adagrad;
    case OptimizerName::adadelta:
      return UpdateRule::adadelta;
  }
  throw InternalError("rule_of: no such optimizer");
}

void Optimizer::update(Range range, const at::Tensor& gradients, float gradient_scale) {
  check(0 <= range.begin && range.begin <= range.end && range.end <= parameters_.numel(),
        "an update's range lies in the parameters");
  check(gradients.scalar_type() == at::kFloat && gradients.is_contiguous() && gradients.sizes() == parameters_.sizes(),
        "gradients are float32 and laid out as the parameters");
  UpdateFactors factors = factors_;
  factors.scale = gradient_scale;
  UpdateSlices slices{range.size(), parameters_.mutable_data_ptr<float>() + range.begin,
                      gradients.const_data_ptr<float>() + range.begin};
  if (!state_.empty()) slices.first = state_[0].values.mutable_data_ptr<float>() + range.begin;
  if (state_.size() > 1) slices.second = state_[1].values.mutable_data_ptr<float>() + range.begin;
  device_.math->update(rule_of(options_), slices, factors, not_finite_.mutable_data_ptr<int32_t>());
}

bool Optimizer::all_finite() const { return not_finite_.item<int32_t>() == 0; }

}  // namespace dtrain
