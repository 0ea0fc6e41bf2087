#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/task.hpp"
#include "dtrain/metrics/interval.hpp"

namespace dtrain {

/// What a network said about a whole set, one row per sample in the order of the set: the same on every rank.
struct Predictions {
  at::Tensor loss;    ///< float64 [N]: loss of each sample
  at::Tensor scores;  ///< multilabel, multiclass: float64 [N, K] probabilities
  at::Tensor labels;  ///< multilabel: float32 [N, K], NaN = unknown; multiclass: float32 [N, K], one-hot
  at::Tensor pixels;  ///< segmentation: int64 [N, K, 3]: pixels in both, predicted (probability > 0.5), in the mask
};

/// One metric. `name` as in epochs.csv without its `valid_`: accuracy, auroc, auroc_Mass, iou, iou_image, dice …
struct Figure {
  std::string name;
  std::optional<double> value;  ///< nothing: undefined (a class without both labels)
  Confidence confidence;        ///< of the value; empty where no groups were given
};

/// multilabel    auroc (mean over the classes where it is defined), then auroc_<class>.
/// multiclass    accuracy; auroc: of the second class where there are two, else the mean of one against the rest; with
///               more than two classes auroc_<class>.
/// segmentation  iou (all pixels of the set together), iou_image (mean over pictures), dice; with several classes their
///               means over the classes, then iou_<class>. An empty union counts as 1.
/// groups        of the samples, in their order: with them each figure has its confidence (auroc_confidence(),
///               share_confidence()), without them, as in training, only its value
/// docs/metrics.md has the formulas.
std::vector<Figure> figures_of(Task task, const std::vector<std::string>& classes, const Predictions& predictions,
                               const std::optional<Groups>& groups = std::nullopt);

/// The names that figures_of() will give, in its order: the columns of epochs.csv are fixed before the first epoch.
std::vector<std::string> figure_names(Task task, const std::vector<std::string>& classes);

/// Mean of `loss`, summed in the order of the set.
double mean_loss(const Predictions& predictions);

/// IoU and Dice of each sample over all classes, as predictions_<split>.csv has them.
struct SampleOverlap {
  double iou = 0;
  double dice = 0;
};
std::vector<SampleOverlap> sample_overlaps(const Predictions& predictions);

}  // namespace dtrain
