#include "dtrain/model/binary_terms.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>

#include "dtrain/base/error.hpp"

namespace dtrain {

at::Tensor binary_terms(const LossTerms& terms, const at::Tensor& logits, const at::Tensor& targets,
                        const TermFactor& factor) {
  check(targets.sizes() == logits.sizes(), "targets have the shape of the logits");
  at::Tensor labels = targets.to(logits.scalar_type());
  at::Tensor unknown;
  if (terms.task == Task::multilabel) {
    unknown = labels.isnan();
    labels = labels.masked_fill(unknown, 0);
  }
  at::Tensor parts = at::binary_cross_entropy_with_logits(logits, labels, {}, broadcast_weights(terms.weights, logits),
                                                          at::Reduction::None);
  if (factor) parts = factor(logits, labels) * parts;
  if (unknown.defined()) parts = parts.masked_fill(unknown, 0);
  return parts.flatten(1).mean(1);
}

}  // namespace dtrain
