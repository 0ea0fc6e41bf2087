#pragma once
#include <ATen/core/Tensor.h>

#include "dtrain/model/loss.hpp"

namespace dtrain {

/// [n]: cross-entropy of each sample with the weights and label_smoothing of `terms`; of a mask the mean over its
/// pixels, of which those without a class are background.
at::Tensor class_terms(const LossTerms& terms, const at::Tensor& logits, const at::Tensor& targets);

/// Loss::of_frequencies of it.
double class_terms_of_frequencies(const LossTerms& terms, const LabelCounts& known, const LabelCounts& judged);

}  // namespace dtrain
