#include "dtrain/optim/optimizer.hpp"

#include <ATen/ops/empty.h>
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
  if (options_.kind->trust_ratio) sums_ = at::empty({FlatMath::kMeasureRoom}, not_finite_.options().dtype(at::kDouble));
  for (const std::string& name : state_names(options_)) state_.push_back({name, at::zeros_like(parameters_)});
  parts_ = {{.range = {0, parameters_.numel()}, .weight_decay = options_.weight_decay}};
}

static UpdateFactors rounded(const FactorsOf<double>& f) {
  const auto single = [](double value) { return static_cast<float>(value); };
  return {.scale = single(f.scale),
          .decay = single(f.decay),
          .keep = single(f.keep),
          .weight_decay = single(f.weight_decay),
          .rate = single(f.rate),
          .momentum = single(f.momentum),
          .mean_in = single(f.mean_in),
          .direction_in = single(f.direction_in),
          .square_keep = single(f.square_keep),
          .square_in = single(f.square_in),
          .mean_correction = single(f.mean_correction),
          .root_correction = single(f.root_correction),
          .trust = single(f.trust),
          .eps = single(f.eps)};
}

void Optimizer::set_parts(const std::vector<Part>& parts) {
  parts_.clear();
  int64_t covered = 0;
  for (const Part& part : parts) {
    check(part.range.begin == covered, "an optimizer's parts cover the parameters in order");
    covered = part.range.end;
    Part* const last = parts_.empty() ? nullptr : &parts_.back();
    const bool apart = sums_.defined() && (part.adapts || (last != nullptr && last->adapts));
    if (last != nullptr && !apart && last->rate == part.rate && last->weight_decay == part.weight_decay &&
        last->begun_at == part.begun_at)
      last->range.end = part.range.end;
    else
      parts_.push_back(part);
  }
  check(covered == parameters_.numel(), "an optimizer's parts cover the parameters");
}

void Optimizer::begin_update(double learning_rate) {
  ++updates_;
  factors_.clear();
  for (const Part& part : parts_)
    factors_.push_back(
        rounded(update_factors(options_, learning_rate * part.rate, part.weight_decay, updates_ - part.begun_at)));
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
    update_part(*part, {std::max(range.begin, part->range.begin), std::min(range.end, part->range.end)}, gradients,
                factors);
  }
}

void Optimizer::update_part(const Part& part, Range range, const at::Tensor& gradients, const UpdateFactors& factors) {
  if (range.size() == 0) return;
  UpdateSlices slices{range.size(), parameters_.mutable_data_ptr<float>() + range.begin,
                      gradients.const_data_ptr<float>() + range.begin};
  if (!state_.empty()) slices.first = state_[0].values.mutable_data_ptr<float>() + range.begin;
  if (state_.size() > 1) slices.second = state_[1].values.mutable_data_ptr<float>() + range.begin;
  if (sums_.defined()) {
    check(!part.adapts || range.size() == part.range.size(), "a part whose norms count is updated whole");
    device_.math->measure(rule_, slices, factors, sums_.mutable_data_ptr<double>());
    if (part.adapts) slices.sums = sums_.const_data_ptr<double>();
  }
  device_.math->update(rule_, slices, factors, not_finite_.mutable_data_ptr<int32_t>());
}

}  // namespace dtrain
