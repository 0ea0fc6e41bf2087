#pragma once
#include <cstdint>
#include <vector>

#include "dtrain/metrics/measure.hpp"

namespace dtrain {

/// Multiclass: how many samples of each class got which answer (Predictions::most_probable), [K × K], row by row: the
/// samples of class i that were taken for class j at i × K + j.
std::vector<int64_t> confusion_matrix(const Predictions& predictions);

/// Samples with a known label, by their label and by what an output calls them. Multilabel: positive from
/// Predictions::threshold() on; multiclass: the answer against all other classes.
struct CallCounts {
  double true_positives = 0;
  double false_positives = 0;
  double false_negatives = 0;
  double true_negatives = 0;
};

/// Of each output, over all samples.
std::vector<CallCounts> call_counts(const Predictions& predictions);

}  // namespace dtrain
