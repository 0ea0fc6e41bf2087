#include "dtrain/model/loss.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "dtrain/base/error.hpp"

namespace dtrain {

Loss::Loss(const LossOptions& options, Task task, const std::vector<double>& pos_weight, c10::Device device)
    : task_(task), label_smoothing_(options.label_smoothing) {
  check(task != Task::from_format, "the task is known before the loss is made");
  const bool one_of_several = task == Task::multiclass;
  if (one_of_several && options.name == LossName::bce)
    throw ConfigError("loss.name: bce does not fit task: multiclass (one class of several); use cross_entropy or auto");
  if (!one_of_several && options.name == LossName::cross_entropy)
    throw ConfigError("loss.name: cross_entropy fits task: multiclass alone; use bce or auto");
  if (one_of_several && !pos_weight.empty())
    throw ConfigError("loss.pos_weight has no effect with task: multiclass; it weighs the positive term of bce");
  if (!one_of_several && label_smoothing_ != 0)
    throw ConfigError("loss.label_smoothing has no effect with bce; it belongs to cross_entropy (task: multiclass)");
  if (!(label_smoothing_ >= 0 && label_smoothing_ < 1)) throw ConfigError("loss.label_smoothing must lie in [0, 1)");
  if (!pos_weight.empty()) pos_weight_ = at::tensor(pos_weight, at::kDouble).to(device);
}

// One factor per output, shaped to meet the logits [n, K] or [n, K, H, W]; nothing when there are none.
static std::optional<at::Tensor> broadcast_weight(const at::Tensor& factors, const at::Tensor& logits) {
  if (!factors.defined()) return std::nullopt;
  if (factors.numel() != logits.size(1))
    throw ConfigError("loss.pos_weight has " + std::to_string(factors.numel()) + " factors, and the network has " +
                      std::to_string(logits.size(1)) + " outputs; give one factor per output");
  std::vector<int64_t> shape(static_cast<size_t>(logits.dim() - 1), 1);
  shape[0] = logits.size(1);
  return factors.to(logits.scalar_type()).view(shape);
}

at::Tensor Loss::per_sample(const at::Tensor& logits, const at::Tensor& targets) const {
  if (task_ == Task::multiclass) {
    check(targets.dim() == 1 && targets.size(0) == logits.size(0), "multiclass targets are one index per sample");
    return at::cross_entropy_loss(logits, targets, {}, at::Reduction::None, -100, label_smoothing_);
  }
  check(targets.sizes() == logits.sizes(), "targets have the shape of the logits");
  at::Tensor labels = targets.to(logits.scalar_type());
  at::Tensor unknown;
  if (task_ == Task::multilabel) {
    unknown = labels.isnan();
    labels = labels.masked_fill(unknown, 0);
  }
  at::Tensor terms = at::binary_cross_entropy_with_logits(logits, labels, {}, broadcast_weight(pos_weight_, logits),
                                                          at::Reduction::None);
  if (unknown.defined()) terms = terms.masked_fill(unknown, 0);
  return terms.flatten(1).mean(1);
}

// A frequency that is no certainty.
static double frequency(double weight, double others, double samples) {
  if (weight + others <= 0) return 0.5;
  const double least = 0.5 / std::max(1.0, samples);
  return std::clamp(weight / (weight + others), least, 1 - least);
}

double Loss::of_frequencies(const LabelCounts& known, const LabelCounts& judged) const {
  const size_t outputs = known.positive.size();
  check(outputs == judged.positive.size(), "both sets have the same outputs");
  if (judged.samples <= 0) return 0;
  double loss = 0;
  for (size_t k = 0; k < outputs; ++k) {
    if (task_ == Task::multiclass) {
      const double even = label_smoothing_ / static_cast<double>(outputs);
      const double answer = frequency(known.positive[k], known.samples - known.positive[k], known.samples);
      const double share = judged.positive[k] / judged.samples;
      loss -= ((1 - label_smoothing_) * share + even) * std::log((1 - label_smoothing_) * answer + even);
      continue;
    }
    const double weight = pos_weight_.defined() ? pos_weight_[static_cast<int64_t>(k)].item<double>() : 1;
    const double answer = frequency(weight * known.positive[k], known.negative[k], known.samples);
    loss -= (weight * judged.positive[k] * std::log(answer) + judged.negative[k] * std::log(1 - answer)) /
            (judged.samples * static_cast<double>(outputs));
  }
  return loss;
}

at::Tensor Loss::probabilities(const at::Tensor& logits) const {
  return task_ == Task::multiclass ? logits.softmax(1) : logits.sigmoid();
}

std::vector<double> balanced_pos_weight(const std::vector<std::vector<float>>& targets, int64_t outputs) {
  std::vector<double> positives(static_cast<size_t>(outputs), 0), negatives = positives;
  for (const auto& row : targets) {
    check(row.size() == positives.size(), "a sample has one target per output");
    for (size_t k = 0; k < row.size(); ++k)
      if (!std::isnan(row[k])) ++(row[k] > 0.5F ? positives : negatives)[k];
  }
  std::vector<double> factors(positives.size(), 1);
  for (size_t k = 0; k < factors.size(); ++k)
    if (positives[k] > 0) factors[k] = negatives[k] / positives[k];
  return factors;
}

}  // namespace dtrain
