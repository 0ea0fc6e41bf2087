#include "dtrain/model/constant_answer.hpp"

#include <algorithm>
#include <cmath>

namespace dtrain {

// Golden section.
double best_constant(const LabelCounts& known, size_t k, const std::function<double(double)>& loss) {
  if (known.positive[k] + known.negative[k] <= 0) return 0.5;
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double low = 0.5 / std::max(1.0, known.samples), high = 1 - low;
  for (int i = 0; i < 100; ++i) {
    const double left = high - ratio * (high - low), right = low + ratio * (high - low);
    const bool falls = loss(left) > loss(right);
    (falls ? low : high) = falls ? left : right;
  }
  return (low + high) / 2;
}

}  // namespace dtrain
