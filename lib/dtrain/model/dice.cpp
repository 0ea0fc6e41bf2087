#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>

#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/model/binary_terms.hpp"
#include "dtrain/model/class_terms.hpp"
#include "dtrain/model/constant_answer.hpp"

namespace dtrain {

namespace {

// Added to both sides of each class's quotient: a class that is neither there nor predicted costs nothing.
constexpr double kSmooth = 1e-5;

// For each class: probabilities on the mask, all probabilities, and the mask.
at::Tensor overlap_sums(const LossTerms& /*terms*/, const at::Tensor& logits, const at::Tensor& targets) {
  const bool background = logits.size(1) == targets.size(1) + 1;  // which has a logit, but no part in the loss
  check(background || targets.sizes() == logits.sizes(), "each class has a logit");
  const at::Tensor probabilities = background ? logits.softmax(1).slice(1, 1) : logits.sigmoid();
  const at::Tensor masks = targets.to(logits.scalar_type());
  const auto total = [](const at::Tensor& pixels) { return pixels.flatten(2).sum(2).to(at::kDouble); };
  return at::stack({total(probabilities * masks), total(probabilities), total(masks)}, 2);
}

at::Tensor loss_of_overlap(const at::Tensor& sums) {
  const at::Tensor overlap = 2 * sums.select(-1, 0) + kSmooth;
  return 1 - (overlap / (sums.select(-1, 1) + sums.select(-1, 2) + kSmooth)).mean(-1);
}

// The loss of one output over `counts` if every pixel is given the probability p.
double overlap_of_constant(double p, double positive, double pixels) {
  return 1 - (2 * p * positive + kSmooth) / (p * pixels + positive + kSmooth);
}

// The mean over the outputs of `loss` of one, in which all pixels get what is best for the known set.
template <class OutputLoss>
double mean_of_constants(const LabelCounts& known, const LabelCounts& judged, size_t first, const OutputLoss& loss) {
  double sum = 0;
  for (size_t k = first; k < known.positive.size(); ++k)
    sum += loss(best_constant(known, k, [&](double p) { return loss(p, known, k); }), judged, k);
  return sum / static_cast<double>(known.positive.size() - first);
}

// Background has counts where it has a logit, which it has beside several classes, before them.
size_t first_class(const LabelCounts& counts) { return counts.positive.size() > 1 ? 1 : 0; }

double of_frequencies(const LossTerms& /*terms*/, const LabelCounts& known, const LabelCounts& judged) {
  return mean_of_constants(known, judged, first_class(known), [](double p, const LabelCounts& counts, size_t k) {
    return overlap_of_constant(p, counts.positive[k], counts.samples);
  });
}

at::Tensor entropy_per_sample(const LossTerms& terms, const at::Tensor& logits, const at::Tensor& targets) {
  return binary_terms(terms, logits, targets);
}

double of_frequencies_with_entropy(const LossTerms& terms, const LabelCounts& known, const LabelCounts& judged) {
  return mean_of_constants(known, judged, 0, [&](double p, const LabelCounts& counts, size_t k) {
    const double weight = terms.weights.defined() ? terms.weights[static_cast<int64_t>(k)].item<double>() : 1;
    const double entropy =
        -(weight * counts.positive[k] * std::log(p) + counts.negative[k] * std::log(1 - p)) / counts.samples;
    return entropy + overlap_of_constant(p, counts.positive[k], counts.samples);
  });
}

// With the answer that is best for the cross-entropy, the frequencies of the classes.
double of_frequencies_with_classes(const LossTerms& terms, const LabelCounts& known, const LabelCounts& judged) {
  double sum = 0;
  for (size_t k = 1; k < known.positive.size(); ++k)
    sum += overlap_of_constant(cautious_share(known.positive[k], known.negative[k], known.samples), judged.positive[k],
                               judged.samples);
  return class_terms_of_frequencies(terms, known, judged) + sum / static_cast<double>(known.positive.size() - 1);
}

}  // namespace

/// Milletari et al., "V-Net", 3DV 2016, in the form with sums instead of sums of squares (Drozdzal et al. 2016), as
/// MONAI's DiceLoss(batch=True) and nnU-Net's batch_dice have it: the mean over the classes of
/// 1 - (2·Σpt + ε) ÷ (Σp + Σt + ε), sums over all pixels of all samples of a batch, ε = 1e-5. A single class has a
/// sigmoid; several have a softmax with background, which is not among the classes of the mean, as in nnU-Net.
extern const LossKind kDiceLoss = {
    .name = "dice",
    .doc =
        [] {
          return std::string(
              "dice is 1 minus the Dice coefficient of probabilities and masks, over all pixels of a batch together, "
              "the mean over the classes; several classes exclude each other, as with a softmax over them and "
              "background.");
        },
    .probabilities = Probabilities::of_one_of_several,
    .tasks = {Task::segmentation},
    .keys = {"dice"},
    .also_called = {"dice_loss", "soft_dice"},
    .sums = overlap_sums,
    .of_sums = loss_of_overlap,
    .of_frequencies = of_frequencies,
};

/// The sum of both, in equal parts, as nnU-Net adds them (Isensee et al., Nature Methods 18, 2021).
extern const LossKind kBceDice = {
    .name = "bce_dice",
    .doc = [] { return std::string("bce_dice is binary cross-entropy plus that."); },
    .probabilities = Probabilities::independent,
    .tasks = {Task::segmentation},
    .keys = {"pos_weight", "dice"},
    .also_called = {"dice_bce"},
    .per_sample = entropy_per_sample,
    .sums = overlap_sums,
    .of_sums = loss_of_overlap,
    .of_frequencies = of_frequencies_with_entropy,
};

/// nnU-Net's loss: cross-entropy plus Dice over the classes without background, in equal parts.
extern const LossKind kCeDice = {
    .name = "ce_dice",
    .doc = [] { return std::string("ce_dice is Dice plus the cross-entropy of that softmax."); },
    .probabilities = Probabilities::of_one,
    .tasks = {Task::segmentation},
    .keys = {"class_weight", "label_smoothing", "dice"},
    .also_called = {"dice_ce", "dc_and_ce"},
    .per_sample = class_terms,
    .sums = overlap_sums,
    .of_sums = loss_of_overlap,
    .of_frequencies = of_frequencies_with_classes,
};

}  // namespace dtrain
