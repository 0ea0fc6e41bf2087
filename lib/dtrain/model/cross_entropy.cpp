#include "dtrain/model/class_terms.hpp"

namespace dtrain {

/// multiclass    logits [n, K], targets int64 [n].
/// segmentation  logits [n, 1 + K, H, W], targets float [n, K, H, W]: the mean over the pixels.
extern const LossKind kCrossEntropy = {
    .name = "cross_entropy",
    .doc =
        [] {
          return std::string(
              "cross_entropy for segmentation takes each pixel as background or one of the classes: softmax over "
              "both.");
        },
    .probabilities = Probabilities::of_one,
    .tasks = {Task::multiclass, Task::segmentation},
    .keys = {"class_weight", "label_smoothing"},
    .also_called = {"crossentropy", "ce"},
    .per_sample = class_terms,
    .of_frequencies = class_terms_of_frequencies,
};

}  // namespace dtrain
