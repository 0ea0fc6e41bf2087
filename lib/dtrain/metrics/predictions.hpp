#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain {

/// Pixels of one class, of a sample or of several together.
struct PixelCounts {
  int64_t both = 0;       ///< predicted, and in the mask
  int64_t predicted = 0;  ///< with a probability above one half
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
  size_t outputs = 0;          ///< K
  std::vector<double> loss;    ///< [N]: of each sample
  std::vector<double> scores;  ///< multilabel, multiclass: probabilities [N, K]
  std::vector<float> labels;   ///< multilabel [N, K]: 0, 1, NaN = unknown; multiclass [N, K]: 1 for the right class
  std::vector<PixelCounts> pixels;  ///< segmentation [N, K]

  size_t samples() const { return loss.size(); }
  double score(size_t sample, size_t output) const { return scores[sample * outputs + output]; }
  float label(size_t sample, size_t output) const { return labels[sample * outputs + output]; }
  const PixelCounts& counts(size_t sample, size_t output) const { return pixels[sample * outputs + output]; }
};

/// Mean of `loss`, summed in the order of the part. There is a sample.
double mean_loss(const Predictions& predictions);

}  // namespace dtrain
