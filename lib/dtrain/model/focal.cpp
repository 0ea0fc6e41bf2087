#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/log_sigmoid.h>

#include <cmath>

#include "dtrain/model/binary_terms.hpp"
#include "dtrain/model/constant_answer.hpp"

namespace dtrain {

namespace {

at::Tensor focal_per_sample(const LossTerms& terms, const at::Tensor& logits, const at::Tensor& targets) {
  // (1 - p)^gamma of the true label's p, in a form whose gradient is finite for every gamma and every p.
  return binary_terms(terms, logits, targets, [&](const at::Tensor& x, const at::Tensor& labels) {
    return (terms.gamma * at::log_sigmoid(x * (1 - 2 * labels))).exp();
  });
}

// The loss of one output if every sample is given the probability p.
double constant_loss(double p, double gamma, double positive, double negative) {
  return -positive * std::pow(1 - p, gamma) * std::log(p) - negative * std::pow(p, gamma) * std::log(1 - p);
}

double focal_of_frequencies(const LossTerms& terms, const LabelCounts& known, const LabelCounts& judged) {
  const size_t outputs = known.positive.size();
  double loss = 0;
  for (size_t k = 0; k < outputs; ++k) {
    const double weight = terms.weights.defined() ? terms.weights[static_cast<int64_t>(k)].item<double>() : 1;
    const double positive = weight * known.positive[k], negative = known.negative[k];
    const double answer =
        best_constant(known, k, [&](double p) { return constant_loss(p, terms.gamma, positive, negative); });
    loss += constant_loss(answer, terms.gamma, weight * judged.positive[k], judged.negative[k]) /
            (judged.samples * static_cast<double>(outputs));
  }
  return loss;
}

}  // namespace

/// Lin et al., "Focal loss for dense object detection", ICCV 2017: binary cross-entropy with logits, each term times
/// (1 - p)^gamma, p being the probability of the true label; shapes, means and unknown labels as without that factor.
/// The paper's alpha is pos_weight = alpha/(1 - alpha), times 1 - alpha.
extern const LossKind kFocal = {
    .name = "focal",
    .doc =
        [] {
          return std::string(
              "focal (Lin et al. 2017) is binary cross-entropy with (1 - p)^`loss.gamma` on the term of a label whose "
              "probability is p.");
        },
    .probabilities = Probabilities::independent,
    .tasks = {Task::multilabel, Task::segmentation},
    .keys = {"pos_weight", "gamma"},
    .also_called = {"focal_loss", "sigmoid_focal"},
    .per_sample = focal_per_sample,
    .of_frequencies = focal_of_frequencies,
};

}  // namespace dtrain
