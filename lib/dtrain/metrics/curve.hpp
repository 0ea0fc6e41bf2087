#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/metrics/predictions.hpp"

namespace dtrain {

/// What an output calls positive from one threshold on.
struct CurvePoint {
  double threshold = 0;  ///< a score that occurs; infinite at the first point, where nothing is called positive
  int64_t true_positives = 0;
  int64_t false_positives = 0;
};

/// The ROC and the precision-recall curve of an output: one point for each score that occurs, from the highest down.
/// Left out are only points in the middle of a straight, level piece of the ROC curve (three points at equal distances
/// with as many true positives), so that areas and average precision are those of all points; without ties there are
/// about two points per positive, however many negatives there are.
struct Curve {
  int64_t positives = 0;  ///< samples; those whose label is unknown are left out
  int64_t negatives = 0;
  std::vector<CurvePoint> points;  ///< empty without a known label, or where a score is not a number
};

/// Of output `k`; multiclass: this class against all others. O(n log n).
Curve curve_of(const Predictions& predictions, size_t k);

}  // namespace dtrain
