#include <ATen/ATen.h>

#include <cmath>
#include <numeric>

#include "dtrain/base/error.hpp"
#include "dtrain/model/loss.hpp"

namespace dtrain {

namespace {

at::Tensor cross_entropy_per_sample(const LossTerms& terms, const at::Tensor& logits, const at::Tensor& targets) {
  check(targets.dim() == 1 && targets.size(0) == logits.size(0), "multiclass targets are one index per sample");
  std::optional<at::Tensor> weights = broadcast_weights(terms.weights, logits);
  return at::cross_entropy_loss(logits, targets, weights, at::Reduction::None, -100, terms.label_smoothing);
}

double cross_entropy_of_frequencies(const LossTerms& terms, const LabelCounts& known, const LabelCounts& judged) {
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

}  // namespace

/// multiclass  logits [n, K], targets int64 [n].
extern const LossKind kCrossEntropy = {
    .name = "cross_entropy",
    .probabilities = Probabilities::of_one,
    .tasks = {Task::multiclass},
    .keys = {"class_weight", "label_smoothing"},
    .also_called = {"crossentropy", "ce"},
    .per_sample = cross_entropy_per_sample,
    .of_frequencies = cross_entropy_of_frequencies,
};

}  // namespace dtrain
