#include "dtrain/optim/optimizer.hpp"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "dtrain/base/error.hpp"

namespace dtrain {

std::vector<std::string> state_names(const OptimizerOptions& options) { return options.kind->plan(options).states; }

Optimizer::Optimizer(const OptimizerOptions& options, at::Tensor parameters, const Device& device)
    : options_(options), rule_(options.kind->plan(options).rule), device_(device), parameters_(std::move(parameters)) {
  check(parameters_.scalar_type() == at::kFloat && parameters_.is_contiguous(), "parameters are flat float32");
  not_finite_ = at::zeros({1}, parameters_.options().dtype(at::kInt).requires_grad(false));
  for (const std::string& name : state_names(options_)) state_.push_back({name, at::zeros_like(parameters_)});
  parts_ = {{.range = {0, parameters_.numel()}, .weight_decay = options_.weight_decay}};
}

void Optimizer::set_parts(const std::vector<Part>& parts) {
  parts_.clear();
  int64_t covered = 0;
  for (const Part& part : parts) {
    check(part.range.begin == covered, "an optimizer's parts cover the parameters in order");
    covered = part.range.end;
    Part* const last = parts_.empty() ? nullptr : &parts_.back();
    if (last != nullptr && last->rate == part.rate && last->weight_decay == part.weight_decay &&
        last->begun_at == part.begun_at)
      last->range.end = part.range.end;
    else
      parts_.push_back(part);
  }
  check(covered == parameters_.numel(), "an optimizer's parts cover the parameters");
}

UpdateFactors Optimizer::factors_of(const Part& part, double learning_rate) const {
  const OptimizerKind& kind = *options_.kind;
  const double rate = learning_rate * part.rate;
  UpdateFactors factors = kind.factors(options_, rate, updates_ - part.begun_at);
  if (kind.decoupled_decay)
    factors.keep = static_cast<float>(1 - rate * part.weight_decay);
  else
    factors.decay = static_cast<float>(part.weight_decay);
  return factors;
}

void Optimizer::begin_update(double learning_rate) {
  ++updates_;
  factors_.clear();
  for (const Part& part : parts_) factors_.push_back(factors_of(part, learning_rate));
  not_finite_.zero_();
}

void Optimizer::update(Range range, const at::Tensor& gradients, float gradient_scale) {
  check(0 <= range.begin && range.begin <= range.end && range.end <= parameters_.numel(),
        "an update's range lies in the parameters");
  check(gradients.scalar_type() == at::kFloat && gradients.is_contiguous() && gradients.sizes() == parameters_.sizes(),
        "gradients are float32 and laid out as the parameters");
  const auto first = std::partition_point(parts_.begin(), parts_.end(),
                                          [&](const Part& part) { return part.range.end <= range.begin; });
  for (auto part = first; part != parts_.end() && part->range.begin < range.end; ++part) {
    UpdateFactors factors = factors_[static_cast<size_t>(part - parts_.begin())];
    factors.scale = gradient_scale;
    update_evenly({std::max(range.begin, part->range.begin), std::min(range.end, part->range.end)}, gradients, factors);
  }
}

void Optimizer::update_evenly(Range range, const at::Tensor& gradients, const UpdateFactors& factors) {
  if (range.size() == 0) return;
  UpdateSlices slices{range.size(), parameters_.mutable_data_ptr<float>() + range.begin,
                      gradients.const_data_ptr<float>() + range.begin};
  if (!state_.empty()) slices.first = state_[0].values.mutable_data_ptr<float>() + range.begin;
  if (state_.size() > 1) slices.second = state_[1].values.mutable_data_ptr<float>() + range.begin;
  device_.math->update(rule_, slices, factors, not_finite_.mutable_data_ptr<int32_t>());
}

bool Optimizer::all_finite() const { return not_finite_.item<int32_t>() == 0; }

}  // namespace dtrain
