#include "dtrain/model/loss.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

static void require_reader(const LossKind& kind, const std::string& key) {
  if (reads(kind, key)) return;
  throw ConfigError("loss." + key + " has no effect with " + kind.name + "; it belongs to " +
                    join(readers_of(losses(), key), ", "));
}

Loss::Loss(const LossOptions& options, Task task, const std::vector<double>& weights, c10::Device device)
    : kind_(&loss_in_use(options, task)),
      terms_{.task = task, .label_smoothing = options.label_smoothing, .gamma = options.gamma} {
  check(task != Task::from_format, "the task is known before the loss is made");
  if (const std::string wrong = wrong_task(*kind_, task); !wrong.empty()) throw ConfigError(wrong);
  if (!weights.empty() && !reads(*kind_, "class_weight")) require_reader(*kind_, "pos_weight");
  if (options.label_smoothing != 0) require_reader(*kind_, "label_smoothing");
  if (!(options.label_smoothing >= 0 && options.label_smoothing < 1))
    throw ConfigError("loss.label_smoothing must lie in [0, 1)");
  if (!weights.empty()) terms_.weights = at::tensor(weights, at::kDouble).to(device);
}

at::Tensor Loss::mean_part(const at::Tensor& logits, const at::Tensor& targets) const {
  return kind_->per_sample != nullptr ? kind_->per_sample(terms_, logits, targets)
                                      : at::zeros({logits.size(0)}, logits.options());
}

at::Tensor Loss::sums(const at::Tensor& logits, const at::Tensor& targets) const {
  return kind_->sums(terms_, logits, targets);
}

at::Tensor Loss::per_sample(const at::Tensor& logits, const at::Tensor& targets, const BatchSums& batch) const {
  if (!needs_sums()) return kind_->per_sample(terms_, logits, targets);
  const at::Tensor own = sums(logits, targets), known = own.detach();
  const at::Tensor whole = batch.sums.defined() ? batch.sums : known.sum(0);
  const at::Tensor samples = batch.samples.defined() ? batch.samples : at::full({}, logits.size(0), whole.options());
  // The loss of the batch for each sample, where nothing but this sample's share of the sums depends on its logits. The
  // factor is undone by the mean over the batch.
  const at::Tensor of_batch = of_sums(whole + (own - known)), value = of_batch.detach();
  const at::Tensor shared = (value + (of_batch - value) * samples).to(logits.scalar_type());
  return kind_->per_sample != nullptr ? kind_->per_sample(terms_, logits, targets) + shared : shared;
}

at::Tensor Loss::probabilities(const at::Tensor& logits) const {
  if (has_background(logits.size(1))) return logits.softmax(1).slice(1, 1);
  return kind_->probabilities == Probabilities::of_one ? logits.softmax(1) : logits.sigmoid();
}

GraphValue Loss::probabilities(const GraphValue& logits, int64_t outputs) const {
  const bool background = has_background(outputs);
  if (!background && kind_->probabilities != Probabilities::of_one) return logits.through("Sigmoid");
  ForwardGraph& graph = *logits.graph;
  const GraphValue all = graph.add("Softmax", {logits}, {}, {{"axis", int64_t{1}}});
  if (!background) return all;
  const auto whole = [&](const std::string& name, int64_t value) {
    return graph.constant("classes." + name, at::tensor({value}, at::kLong));
  };
  return graph.add("Slice", {all, whole("first", 1), whole("end", outputs), whole("axis", 1)});
}

double Loss::of_frequencies(const LabelCounts& known, const LabelCounts& judged) const {
  check(known.positive.size() == judged.positive.size(), "both sets have the same outputs");
  return judged.samples <= 0 ? 0 : kind_->of_frequencies(terms_, known, judged);
}

double cautious_share(double part, double others, double samples) {
  if (part + others <= 0) return 0.5;
  const double least = 0.5 / std::max(1.0, samples);
  return std::clamp(part / (part + others), least, 1 - least);
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

std::vector<double> balanced_class_weight(const std::vector<double>& samples_of_class) {
  const double all = std::accumulate(samples_of_class.begin(), samples_of_class.end(), 0.0);
  std::vector<double> factors;
  for (const double samples : samples_of_class)
    factors.push_back(samples > 0 ? all / (static_cast<double>(samples_of_class.size()) * samples) : 1);
  return factors;
}

std::optional<at::Tensor> broadcast_weights(const at::Tensor& weights, const at::Tensor& logits) {
  if (!weights.defined()) return std::nullopt;
  if (weights.numel() != logits.size(1))
    throw ConfigError("the loss has " + count_of(weights.numel(), "weight") + ", and the network has " +
                      count_of(logits.size(1), "output") + "; give one factor per output");
  std::vector<int64_t> shape(static_cast<size_t>(logits.dim() - 1), 1);
  shape[0] = logits.size(1);
  return weights.to(logits.scalar_type()).view(shape);
}

}  // namespace dtrain
