#include "dtrain/study/simulate/order_statistics.hpp"

#include <algorithm>
#include <cmath>

namespace dtrain {

// E[max] = ∫ (1 − Φⁿ) above zero − ∫ Φⁿ below it.
double expected_maximum(int64_t n) {
  if (n <= 1) return 0;
  constexpr double kEnd = 10;
  constexpr int kIntervals = 800;     // of each half
  const auto below = [n](double x) {  // Φ(x)ⁿ
    return std::exp(static_cast<double>(n) * std::log1p(-0.5 * std::erfc(x / std::sqrt(2.0))));
  };
  double sum = 0;
  for (int i = 0; i <= kIntervals; ++i) {
    const double weight = i == 0 || i == kIntervals ? 1 : i % 2 == 1 ? 4 : 2;
    const double x = kEnd * i / kIntervals;
    sum += weight * (1 - below(x) - below(-x));
  }
  return sum * kEnd / kIntervals / 3;
}

double percentile_of(const std::vector<double>& ascending, double share) {
  const auto at = static_cast<size_t>(static_cast<double>(ascending.size()) * share);
  return ascending[std::min(at, ascending.size() - 1)];
}

double robust_deviation(std::vector<double> values) {
  if (values.size() < 2) return 0;
  std::sort(values.begin(), values.end());
  constexpr double kNormal95 = 1.6449;  // of a normal distribution, in standard deviations
  return (percentile_of(values, 0.95) - percentile_of(values, 0.5)) / kNormal95;
}

}  // namespace dtrain
