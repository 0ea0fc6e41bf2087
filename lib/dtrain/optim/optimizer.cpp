#include "dtrain/optim/optimizer.hpp"

#include <ATen/ATen.h>

#include <cmath>

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

Optimizer::Optimizer(const OptimizerOptions& options, at::Tensor parameters)
    : options_(options), parameters_(std::move(parameters)) {
  for (const std::string& name : state_names(options_)) state_.push_back({name, at::zeros_like(parameters_)});
}

void Optimizer::step(const at::Tensor& gradients, double learning_rate) {
  const at::NoGradGuard no_grad;
  ++updates_;
  if (options_.weight_decay != 0) {
    if (options_.name == OptimizerName::adamw)
      parameters_.mul_(1 - learning_rate * options_.weight_decay);
    else
      at::Tensor(gradients).add_(parameters_, options_.weight_decay);
  }
  switch (options_.name) {
    case OptimizerName::sgd:
      return sgd(gradients, learning_rate);
    case OptimizerName::adam:
    case OptimizerName::adamw:
      return adam(gradients, learning_rate);
    case OptimizerName::adagrad:
      return adagrad(gradients, learning_rate);
    case OptimizerName::adadelta:
      return adadelta(gradients, learning_rate);
  }
}

// u ← m·u + g, w ← w − lr·u: the rate stands outside of u, so a change of rate needs no momentum correction.
void Optimizer::sgd(const at::Tensor& g, double lr) {
  if (options_.momentum == 0) {
    parameters_.add_(g, -lr);
    return;
  }
  values(0).mul_(options_.momentum).add_(g);
  if (options_.nesterov)
    parameters_.add_(g.add(values(0), options_.momentum), -lr);
  else
    parameters_.add_(values(0), -lr);
}

void Optimizer::adam(const at::Tensor& g, double lr) {
  values(0).lerp_(g, 1 - options_.beta1);
  values(1).mul_(options_.beta2).addcmul_(g, g, 1 - options_.beta2);
  const double correction1 = 1 - std::pow(options_.beta1, static_cast<double>(updates_));
  const double correction2 = 1 - std::pow(options_.beta2, static_cast<double>(updates_));
  const at::Tensor denominator = values(1).sqrt().div_(std::sqrt(correction2)).add_(options_.eps);
  parameters_.addcdiv_(values(0), denominator, -lr / correction1);
}

void Optimizer::adagrad(const at::Tensor& g, double lr) {
  values(0).addcmul_(g, g, 1);
  parameters_.addcdiv_(g, values(0).sqrt().add_(options_.eps), -lr);
}

void Optimizer::adadelta(const at::Tensor& g, double lr) {
  values(0).mul_(options_.rho).addcmul_(g, g, 1 - options_.rho);
  const at::Tensor delta = values(1).add(options_.eps).sqrt_().div_(values(0).add(options_.eps).sqrt_()).mul_(g);
  values(1).mul_(options_.rho).addcmul_(delta, delta, 1 - options_.rho);
  parameters_.add_(delta, -lr);
}

}  // namespace dtrain
