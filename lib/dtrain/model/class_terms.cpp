#include "dtrain/model/class_terms.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <cmath>
#include <numeric>

#include "dtrain/base/error.hpp"

namespace dtrain {

at::Tensor class_terms(const LossTerms& terms, const at::Tensor& logits, const at::Tensor& targets) {
  at::Tensor classes = targets;
  if (terms.task == Task::segmentation) {
    check(targets.dim() == 4 && targets.size(1) + 1 == logits.size(1), "background has a logit beside the classes'");
    const at::Tensor numbers = at::arange(1, logits.size(1), targets.options()).view({1, -1, 1, 1});
    classes = (targets * numbers).amax(1).to(at::kLong);
  } else {
    check(targets.dim() == 1 && targets.size(0) == logits.size(0), "multiclass targets are one index per sample");
  }
  std::optional<at::Tensor> weights;
  if (const auto broadcast = broadcast_weights(terms.weights, logits)) weights = broadcast->flatten();
  const at::Tensor losses =
      at::cross_entropy_loss(logits, classes, weights, at::Reduction::None, -100, terms.label_smoothing);
  return losses.dim() == 1 ? losses : losses.flatten(1).mean(1);
}

double class_terms_of_frequencies(const LossTerms& terms, const LabelCounts& known, const LabelCounts& judged) {
  const size_t outputs = known.positive.size();
  const double kept = 1 - terms.label_smoothing;
  const double even = terms.label_smoothing / static_cast<double>(outputs);
  std::vector<double> answers, weights(outputs, 1);
  for (size_t k = 0; k < outputs; ++k) {
    if (terms.weights.defined()) weights[k] = terms.weights[static_cast<int64_t>(k)].item<double>();
    const double share = cautious_share(known.positive[k], known.samples - known.positive[k], known.samples);
    answers.push_back(weights[k] * (kept * share + even));
  }
  // Without weights the answers add up to 1 but for the caution.
  const double all = terms.weights.defined() ? std::accumulate(answers.begin(), answers.end(), 0.0) : 1;
  double loss = 0;
  for (size_t k = 0; k < outputs; ++k)
    loss -= weights[k] * (kept * judged.positive[k] / judged.samples + even) * std::log(answers[k] / all);
  return loss;
}

}  // namespace dtrain
