#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/base/task.hpp"

namespace dtrain {

/// Pixels of one class, of a sample or of several together.
struct PixelCounts {
  int64_t both = 0;       ///< predicted, and in the mask
  int64_t predicted = 0;  ///< called by predicted_masks(), which masks are written by
  int64_t wanted = 0;     ///< in the mask

  PixelCounts& operator+=(const PixelCounts& other) {
    both += other.both;
    predicted += other.predicted;
    wanted += other.wanted;
    return *this;
  }
};

/// What a network said about a whole part of the data, one row per sample in the order of the part. Tables are stored
/// row by row: sample i and output k at i × outputs + k.
struct Predictions {
  Task task = Task::multilabel;
  size_t outputs = 0;        ///< K
  std::vector<double> loss;  ///< [N]: of each sample
  /// multilabel, multiclass [N, K]: what the probabilities are made of; empty unless it was asked for.
  std::vector<double> logits;
  std::vector<double> scores;  ///< multilabel, multiclass: probabilities [N, K]
  std::vector<float> labels;   ///< multilabel [N, K]: 0, 1, NaN = unknown; multiclass [N, K]: 1 for the right class
  std::vector<PixelCounts> pixels;  ///< segmentation [N, K]
  /// segmentation [N, K]: hausdorff_95() of each mask, NaN where it is undefined; empty unless it was asked for.
  std::vector<double> distances;
  /// multilabel [K]: from which score on each output calls a sample positive; empty: ½ for each.
  std::vector<double> thresholds;

  size_t samples() const { return loss.size(); }
  double score(size_t sample, size_t output) const { return scores[sample * outputs + output]; }
  float label(size_t sample, size_t output) const { return labels[sample * outputs + output]; }
  double threshold(size_t output) const { return thresholds.empty() ? 0.5 : thresholds[output]; }
  /// multiclass: the answer; of equal probabilities the first.
  size_t most_probable(size_t sample) const {
    const auto first = scores.begin() + static_cast<std::ptrdiff_t>(sample * outputs);
    return static_cast<size_t>(std::max_element(first, first + static_cast<std::ptrdiff_t>(outputs)) - first);
  }
  const PixelCounts& counts(size_t sample, size_t output) const { return pixels[sample * outputs + output]; }
};

/// The samples with these numbers, in this order; a number may repeat. Throws InternalError for one that there is not.
Predictions rows_of(const Predictions& predictions, std::span<const size_t> rows);

/// Mean of `loss`, summed in the order of the part. There is a sample.
double mean_loss(const Predictions& predictions);

}  // namespace dtrain
