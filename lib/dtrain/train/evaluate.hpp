#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "dtrain/data/batches/batch_source.hpp"
#include "dtrain/dist/communicator.hpp"
#include "dtrain/metrics/predictions.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/train/replica.hpp"
#include "dtrain/watch/watchdog.hpp"

namespace dtrain {

/// What is evaluated, and by what. Everything it refers to outlives the call.
struct Evaluation {
  Replica& replica;
  const Loss& loss;
  Task task;
  BatchSource& loader;
  const std::vector<int64_t>& samples;  ///< indices into the data set; the same on all ranks
  int64_t batch;                        ///< largest number of samples in a forward pass
  Communicator& comm;
  Watchdog& watchdog;
  bool with_distances = false;  ///< segmentation: Predictions::distances too, which take some milliseconds a picture
  bool with_logits = false;     ///< multilabel, multiclass: Predictions::logits too
  /// What the network said of each batch, on the rank that computed it: indices of its samples, and their logits.
  using Seen = std::function<void(const std::vector<int64_t>& samples, const at::Tensor& logits)>;
  Seen seen = nullptr;
  int64_t step = 0;  ///< whose weights these are, for the watchdog and for errors
  /// Asked before each batch, on every rank separately.
  std::function<bool()> stop = [] { return false; };
};

/// Runs the network in evaluation mode, in the replica's precision, over the samples, each exactly once over all ranks.
/// A collective: all ranks call it together, and each gets the whole set's predictions, in the order of `samples`. The
/// set is cut into batches of `batch` whatever the number of ranks, because a convolution's bits may depend on the
/// batch: batch j goes to rank j mod n. Returns nothing, on all ranks, when `stop` was true on one.
///
/// Throws DivergedError, on all ranks, when the loss is not finite.
std::optional<Predictions> evaluate(const Evaluation& evaluation);

/// Segmentation: the class of each pixel as called_masks() has it, the rule by which masks are written: bool
/// [n, K, H, W] from logits, on their device.
at::Tensor predicted_masks(const Loss& loss, const at::Tensor& logits);

/// The labels of the evaluated set. pixels: per picture, for segmentation. `background`: pixels of no class are counted
/// too, before those of the classes (Loss::has_background).
LabelCounts label_counts(const Predictions& predictions, int64_t pixels, bool background = false);

/// Segmentation: true if no pixel of the whole set was predicted as any class, although masks have some.
bool nothing_predicted(const Predictions& predictions);

}  // namespace dtrain
