#include <ATen/ATen.h>

#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/model/loss.hpp"

namespace dtrain {

namespace {

at::Tensor cross_entropy_per_sample(const LossTerms& terms, const at::Tensor& logits, const at::Tensor& targets) {
  check(targets.dim() == 1 && targets.size(0) == logits.size(0), "multiclass targets are one index per sample");
  return at::cross_entropy_loss(logits, targets, {}, at::Reduction::None, -100, terms.label_smoothing);
}

double cross_entropy_of_frequencies(const LossTerms& terms, const LabelCounts& known, const LabelCounts& judged) {
  const size_t outputs = known.positive.size();
  const double kept = 1 - terms.label_smoothing;
  const double even = terms.label_smoothing / static_cast<double>(outputs);
  double loss = 0;
  for (size_t k = 0; k < outputs; ++k) {
    const double answer = cautious_share(known.positive[k], known.samples - known.positive[k], known.samples);
    const double share = judged.positive[k] / judged.samples;
    loss -= (kept * share + even) * std::log(kept * answer + even);
  }
  return loss;
}

}  // namespace

/// multiclass  logits [n, K], targets int64 [n].
extern const LossKind kCrossEntropy = {
    .name = "cross_entropy",
    .probabilities = Probabilities::of_one,
    .tasks = {Task::multiclass},
    .keys = {"label_smoothing"},
    .also_called = {"crossentropy", "ce"},
    .per_sample = cross_entropy_per_sample,
    .of_frequencies = cross_entropy_of_frequencies,
};

}  // namespace dtrain
