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
}

void Optimizer::spare_from_decay(std::vector<Range> ranges) {
  spared_.clear();
  for (const Range& range : ranges) {
    check(spared_.empty() || spared_.back().end <= range.begin, "ranges ascend");
    if (!spared_.empty() && spared_.back().end == range.begin)
      spared_.back().end = range.end;
    else
      spared_.push_back(range);
  }
}

void Optimizer::begin_update(double learning_rate) {
  const OptimizerKind& kind = *options_.kind;
  factors_ = kind.factors(options_, learning_rate, ++updates_);
  if (kind.decoupled_decay)
    factors_.keep = static_cast<float>(1 - learning_rate * options_.weight_decay);
  else
    factors_.decay = static_cast<float>(options_.weight_decay);
  not_finite_.zero_();
}

void Optimizer::update(Range range, const at::Tensor& gradients, float gradient_scale) {
  check(0 <= range.begin && range.begin <= range.end && range.end <= parameters_.numel(),
        "an update's range lies in the parameters");
  check(gradients.scalar_type() == at::kFloat && gradients.is_contiguous() && gradients.sizes() == parameters_.sizes(),
        "gradients are float32 and laid out as the parameters");
  UpdateFactors factors = factors_;
  factors.scale = gradient_scale;
  UpdateFactors without_decay = factors;
  without_decay.decay = 0;
  without_decay.keep = 1;
  int64_t done = range.begin;
  for (const Range& spared : spared_) {
    const Range here{std::max(done, spared.begin), std::min(spared.end, range.end)};
    if (here.begin >= here.end) continue;
    update_evenly({done, here.begin}, gradients, factors);
    update_evenly(here, gradients, without_decay);
    done = here.end;
  }
  update_evenly({done, range.end}, gradients, factors);
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
