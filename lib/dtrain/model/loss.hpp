#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "dtrain/base/task.hpp"
#include "dtrain/model/graph.hpp"
#include "dtrain/model/options.hpp"

namespace dtrain {

/// How often each label value occurs in a set.
struct LabelCounts {
  std::vector<double> positive;  ///< per logit: its label is 1; multiclass: samples of that class
  std::vector<double> negative;  ///< per output: its label is 0
  double samples = 0;            ///< including those whose label is unknown; segmentation: pixels
};

/// What the formulas of a loss (LossKind) need besides logits and labels.
struct LossTerms {
  Task task = Task::multilabel;
  double label_smoothing = 0;
  double gamma = 0;
  at::Tensor weights = {};  ///< [K], float64: pos_weight or class_weight; undefined when there are none
};

/// What a loss needs to know of the batch whose samples it judges: a step's, or an evaluated part.
struct BatchSums {
  at::Tensor sums = {};     ///< [K, 3], float64, without a graph: Loss::sums() over all samples of the batch
  at::Tensor samples = {};  ///< [], float64: how many they are
};

/// The loss of each sample, so that any grouping of samples into batches, ranks and steps sums to the same thing. A
/// loss has a part that is a mean over the samples, one that is a function of sums over the batch, which no sample has
/// for itself, or both, which are then added.
/// Shapes follow from the task: multilabel: logits [n, K], targets float [n, K] of 0, 1 or NaN (unknown); multiclass:
/// logits [n, K], targets int64 [n]; segmentation: logits [n, K, H, W], targets float [n, K, H, W] of 0 and 1, at
/// most one of them 1 in a pixel where has_background(), and then logits [n, 1 + K, H, W]. The formula is in the file
/// of the loss in use.
class Loss {
 public:
  /// `task` is not from_format. `weights` has one factor per output, of pos_weight or class_weight, whichever the loss
  /// reads, or is empty. Logits will be on `device`. Throws ConfigError for a loss, or an option of one, that does not
  /// fit the task. loss.l2_kernels is the trainer's.
  Loss(const LossOptions& options, Task task, const std::vector<double>& weights, c10::Device device = c10::kCPU);

  /// [n], in the dtype of `logits`; differentiable. The mean over a batch is what PyTorch's loss gives with its default
  /// reduction. Throws ConfigError unless there is one weight per output.
  /// `batch` counts where needs_sums(): with it the mean over the whole batch, of however many calls, is the batch's
  /// loss, and its gradient is the gradient of that loss. Undefined: these samples are the whole batch.
  at::Tensor per_sample(const at::Tensor& logits, const at::Tensor& targets, const BatchSums& batch = {}) const;

  /// True if a part of the loss is a function of sums over the batch.
  bool needs_sums() const { return kind_->sums != nullptr; }
  /// [n], in the dtype of `logits`: the part of each sample that is its own; 0 if there is none.
  at::Tensor mean_part(const at::Tensor& logits, const at::Tensor& targets) const;
  /// [n, K, 3], float64: what each sample adds to the sums; differentiable. Linear in the targets. Only where
  /// needs_sums().
  at::Tensor sums(const at::Tensor& logits, const at::Tensor& targets) const;
  /// [...] from [..., K, 3]: the part of the loss that is a function of a batch's sums; differentiable.
  at::Tensor of_sums(const at::Tensor& sums) const { return kind_->of_sums(sums); }

  /// Of each class: independent ones, or for one class of several over dimension 1. In the shape of `logits`, less
  /// background where has_background(), which has what is missing to 1. `outputs`: logits.size(1).
  at::Tensor probabilities(const at::Tensor& logits) const;
  GraphValue probabilities(const GraphValue& logits, int64_t outputs) const;
  /// Segmentation: a pixel is background or of one of the classes, which share the probability 1. `outputs`: classes or
  /// logits.
  bool has_background(int64_t outputs) const { return dtrain::has_background(*kind_, terms_.task, outputs); }

  /// Mean loss over a set with the labels of `judged` if every sample gets the same prediction: the class frequencies
  /// in `known`, as this loss weights them (its weights, label_smoothing). If both are the same set, this is the lowest
  /// loss of any constant prediction: the entropy of its labels, where all weigh the same. A network that has learnt
  /// something from the pictures is below it. A class that `known` never or always has counts as half a sample; one
  /// without any known label as 1/2. 0 for an empty set.
  double of_frequencies(const LabelCounts& known, const LabelCounts& judged) const;

 private:
  const LossKind* kind_;
  LossTerms terms_;
};

/// part ÷ (part + others) of a set of so many samples, kept half a sample away from 0 and 1; 1/2 if both are 0.
double cautious_share(double part, double others, double samples);

/// negatives ÷ positives per label over `targets` [n, K] with NaN for unknown, for `pos_weight: balanced`;
/// 1 for a label without positives.
std::vector<double> balanced_pos_weight(const std::vector<std::vector<float>>& targets, int64_t outputs);

/// samples ÷ (classes × samples of the class), for `class_weight: balanced`, so that their mean over the samples is 1;
/// 1 for a class without samples.
std::vector<double> balanced_class_weight(const std::vector<double>& samples_of_class);

/// The factors shaped to meet logits [n, K] or [n, K, H, W], in their dtype; nothing when there are none. Throws
/// ConfigError unless there is one per output.
std::optional<at::Tensor> broadcast_weights(const at::Tensor& weights, const at::Tensor& logits);

}  // namespace dtrain
