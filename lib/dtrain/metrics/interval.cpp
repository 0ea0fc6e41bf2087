#include "dtrain/metrics/interval.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

// The place in low … high up to which `below` holds.
template <typename Below>
static double bisect(double low, double high, Below&& below) {
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (below(middle) ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

// Share of Student's distribution within -t … t, by its finite series (Abramowitz & Stegun 26.7.3 and 26.7.4).
static double share_within(double t, int64_t degrees) {
  const auto n = static_cast<double>(degrees);
  const double cosine2 = n / (n + t * t);
  const double sine = std::sqrt(t * t / (n + t * t));
  const bool odd = degrees % 2 == 1;
  double term = odd ? std::sqrt(cosine2) : 1.0;
  double sum = degrees == 1 ? 0.0 : term;
  for (int64_t k = odd ? 3 : 2; k <= degrees - 2; k += 2) {
    term *= cosine2 * static_cast<double>(k - 1) / static_cast<double>(k);
    sum += term;
  }
  return odd ? 2 / std::numbers::pi * (std::atan(t / std::sqrt(n)) + sine * sum) : sine * sum;
}

double t_quantile(int64_t degrees) {
  check(degrees >= 1, "a variance has a degree of freedom");
  // Above, the two first terms of the expansion in 1/degrees (Abramowitz & Stegun 26.7.5) are as exact as the series.
  if (degrees > 20000) {
    const double z = kNormalQuantile;
    const double z3 = z * z * z;
    const auto n = static_cast<double>(degrees);
    return z + (z3 + z) / (4 * n) + (5 * z3 * z * z + 16 * z3 + 3 * z) / (96 * n * n);
  }
  return bisect(1.9, 13.0, [&](double t) { return share_within(t, degrees) < 0.95; });
}

double normal_p(double z) { return std::erfc(std::abs(z) / std::numbers::sqrt2); }

double t_p(double t, int64_t degrees) {
  check(degrees >= 1, "a variance has a degree of freedom");
  return std::clamp(1 - share_within(std::abs(t), degrees), 0.0, 1.0);
}

double normal_quantile(double probability) {
  check(probability > 0 && probability < 1, "a quantile's probability lies between 0 and 1");
  const double tail = std::min(probability, 1 - probability);
  const double z = bisect(0.0, 40.0, [&](double x) { return normal_p(x) / 2 > tail; });
  return probability < 0.5 ? -z : z;
}

double effective_number(std::span<const double> weights) {
  double sum = 0;
  double squares = 0;
  for (const double weight : weights) {
    sum += weight;
    squares += weight * weight;
  }
  return squares > 0 ? sum * sum / squares : 0;
}

int64_t degrees_of(std::span<const double> shares) {
  constexpr double kRounding = 1e-6;  // equal shares give a whole number
  return std::max(int64_t{1}, static_cast<int64_t>(std::floor(effective_number(shares) - 1 + kRounding)));
}

Interval wilson(double share, double trials, double quantile) {
  const double z2 = quantile * quantile / trials;
  const double centre = (share + z2 / 2) / (1 + z2);
  const double half = std::sqrt(share * (1 - share) * z2 + z2 * z2 / 4) / (1 + z2);
  return {std::clamp(centre - half, 0.0, share), std::clamp(centre + half, share, 1.0), "Wilson"};
}

Interval logit_interval(double centre, double variance, double quantile) {
  const double middle = std::log(centre / (1 - centre));
  const double half = quantile * std::sqrt(variance) / (centre * (1 - centre));
  const auto back = [](double x) { return 1 / (1 + std::exp(-x)); };
  return {back(middle - half), back(middle + half), ""};
}

// An area A has the variance A (1 - A) (1 + k (1 - A) / (2 - A) + k A / (1 + A)) / (m n), k = (m + n) / 2 - 1; the edge
// is where 1 - A is as large as the normal quantile times its root.
double newcombe_edge(int64_t positives, int64_t negatives) {
  const auto m = static_cast<double>(positives);
  const auto n = static_cast<double>(negatives);
  const double k = (m + n) / 2 - 1;
  return bisect(0.0, 1.0, [&](double area) {
    const double bracket = 1 + k * (1 - area) / (2 - area) + k * area / (1 + area);
    return (1 - area) * m * n > kNormalQuantile * kNormalQuantile * area * bracket;
  });
}

std::string too_few(int64_t groups, const std::string& noun) {
  return count_of(groups, noun) + ", fewer than " + std::to_string(kLeastGroups);
}

}  // namespace dtrain
