#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "dtrain/model/loss.hpp"

namespace dtrain {

/// A factor on each term, from logits and labels of 0 and 1, in their shape.
using TermFactor = std::function<at::Tensor(const at::Tensor& logits, const at::Tensor& labels)>;

/// [n]: binary cross-entropy with logits of each sample, with the weights of `terms`, each term times `factor` (null:
/// 1), the mean over the outputs and pixels. An unknown label (multilabel: NaN) adds 0 and no gradient.
at::Tensor binary_terms(const LossTerms& terms, const at::Tensor& logits, const at::Tensor& targets,
                        const TermFactor& factor = nullptr);

}  // namespace dtrain
