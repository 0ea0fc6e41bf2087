#include "dtrain/model/deep_supervision.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>

namespace dtrain {

std::vector<double> resolution_weights(size_t resolutions) {
  std::vector<double> weights;
  double sum = 0;
  for (double weight = 1; weights.size() < resolutions; weight /= 2) {
    weights.push_back(weight);
    sum += weight;
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

at::Tensor lowered_targets(const at::Tensor& targets, int64_t halvings) {
  if (halvings == 0) return targets;
  const int64_t side = int64_t{1} << halvings;
  return targets.slice(2, side / 2, targets.size(2), side).slice(3, side / 2, targets.size(3), side).contiguous();
}

at::Tensor deep_sums(const Loss& loss, const std::vector<at::Tensor>& logits, const at::Tensor& targets) {
  std::vector<at::Tensor> sums;
  for (size_t r = 0; r < logits.size(); ++r)
    sums.push_back(loss.sums(logits[r], lowered_targets(targets, static_cast<int64_t>(r))));
  return at::stack(sums, 1);
}

at::Tensor deep_per_sample(const Loss& loss, const std::vector<at::Tensor>& logits, const at::Tensor& targets,
                           const BatchSums& batch) {
  const auto at_resolution = [&](size_t r) {
    const auto place = static_cast<int64_t>(r);
    BatchSums own = batch;
    if (own.sums.defined()) own.sums = own.sums.select(0, place);
    return loss.per_sample(logits[r], lowered_targets(targets, place), own);
  };
  if (logits.size() == 1) return at_resolution(0);
  const std::vector<double> weights = resolution_weights(logits.size());
  at::Tensor mean = at_resolution(0) * weights[0];
  for (size_t r = 1; r < logits.size(); ++r) mean = mean + at_resolution(r) * weights[r];
  return mean;
}

}  // namespace dtrain
