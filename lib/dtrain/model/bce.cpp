#include <ATen/core/Tensor.h>

#include <cmath>

#include "dtrain/model/binary_terms.hpp"

namespace dtrain {

namespace {

at::Tensor bce_per_sample(const LossTerms& terms, const at::Tensor& logits, const at::Tensor& targets) {
  return binary_terms(terms, logits, targets);
}

double bce_of_frequencies(const LossTerms& terms, const LabelCounts& known, const LabelCounts& judged) {
  const size_t outputs = known.positive.size();
  double loss = 0;
  for (size_t k = 0; k < outputs; ++k) {
    const double weight = terms.weights.defined() ? terms.weights[static_cast<int64_t>(k)].item<double>() : 1;
    const double answer = cautious_share(weight * known.positive[k], known.negative[k], known.samples);
    loss -= (weight * judged.positive[k] * std::log(answer) + judged.negative[k] * std::log(1 - answer)) /
            (judged.samples * static_cast<double>(outputs));
  }
  return loss;
}

}  // namespace

/// multilabel    logits [n, K], targets float [n, K] of 0, 1 or NaN (unknown: no loss, no gradient): binary
///               cross-entropy with logits, mean over the K outputs (unknown ones count as 0).
/// segmentation  logits [n, K, H, W], targets float [n, K, H, W] of 0 and 1: the same, mean over K, H, W.
extern const LossKind kBce = {
    .name = "bce",
    .long_name = "binary cross-entropy with logits",
    .doc =
        [] {
          return "bce of a picture is the mean over all outputs, for " + per_pixel_networks() +
                 " over all pixels too; an unknown label adds 0 to it and no gradient.";
        },
    .probabilities = Probabilities::independent,
    .tasks = {Task::multilabel, Task::segmentation},
    .keys = {"pos_weight"},
    .also_called = {"bce_with_logits"},
    .per_sample = bce_per_sample,
    .of_frequencies = bce_of_frequencies,
};

}  // namespace dtrain
