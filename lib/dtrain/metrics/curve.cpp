#include "dtrain/metrics/curve.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtrain {

// Whether `middle` lies halfway between its neighbours on a level piece.
static bool is_between(const CurvePoint& before, const CurvePoint& middle, const CurvePoint& after) {
  return before.true_positives == after.true_positives &&
         middle.false_positives - before.false_positives == after.false_positives - middle.false_positives;
}

Curve curve_of(const Predictions& p, size_t k) {
  struct Scored {
    double score;
    bool positive;
  };
  std::vector<Scored> samples;
  Curve curve;
  for (size_t i = 0; i < p.samples(); ++i) {
    const float label = p.label(i, k);
    if (std::isnan(label)) continue;
    if (std::isnan(p.score(i, k))) return {};
    samples.push_back({p.score(i, k), label == 1});
    ++(label == 1 ? curve.positives : curve.negatives);
  }
  if (samples.empty()) return curve;
  std::sort(samples.begin(), samples.end(), [](const Scored& a, const Scored& b) { return a.score > b.score; });
  std::vector<CurvePoint> all = {{std::numeric_limits<double>::infinity(), 0, 0}};
  for (size_t i = 0; i < samples.size();) {
    CurvePoint point = all.back();
    point.threshold = samples[i].score;
    for (; i < samples.size() && samples[i].score == point.threshold; ++i)
      ++(samples[i].positive ? point.true_positives : point.false_positives);
    all.push_back(point);
  }
  for (size_t i = 0; i < all.size(); ++i)  // the best score stays too, where the curve really begins
    if (i <= 1 || i + 1 == all.size() || !is_between(all[i - 1], all[i], all[i + 1])) curve.points.push_back(all[i]);
  return curve;
}

}  // namespace dtrain
