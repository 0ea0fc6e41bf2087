#include "dtrain/metrics/auroc.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "dtrain/base/error.hpp"

namespace dtrain {

// Rank of each value among all, from 1; equal values share their mean rank.
static std::vector<double> midranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t j = i + 1;
    while (j < order.size() && values[order[j]] == values[order[i]]) ++j;
    const double mean = 0.5 * static_cast<double>(i + 1 + j);
    for (; i < j; ++i) ranks[order[i]] = mean;
  }
  return ranks;
}

static double variance(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double sum = 0;
  for (double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size() - 1);
}

std::optional<Interval> auroc(std::span<const double> scores, std::span<const float> labels) {
  check(scores.size() == labels.size(), "each score has a label");
  if (std::any_of(scores.begin(), scores.end(), [](double score) { return std::isnan(score); })) return std::nullopt;
  std::vector<double> positive;
  std::vector<double> all;  // positives first
  for (size_t i = 0; i < scores.size(); ++i)
    if (labels[i] == 1) positive.push_back(scores[i]);
  all = positive;
  for (size_t i = 0; i < scores.size(); ++i)
    if (labels[i] == 0) all.push_back(scores[i]);
  const size_t m = positive.size();
  const size_t n = all.size() - m;
  if (m == 0 || n == 0) return std::nullopt;
  const std::vector<double> among_all = midranks(all);
  const std::vector<double> among_positive = midranks(positive);
  const std::vector<double> among_negative = midranks(std::span(all).subspan(m));
  double rank_sum = 0;
  std::vector<double> v10(m);  // share of negatives below each positive, and of positives above each negative
  std::vector<double> v01(n);
  for (size_t i = 0; i < m; ++i) {
    rank_sum += among_all[i];
    v10[i] = (among_all[i] - among_positive[i]) / static_cast<double>(n);
  }
  for (size_t j = 0; j < n; ++j) v01[j] = 1 - (among_all[m + j] - among_negative[j]) / static_cast<double>(m);
  const auto dm = static_cast<double>(m);
  const auto dn = static_cast<double>(n);
  const double area = (rank_sum - dm * (dm + 1) / 2) / (dm * dn);
  const double half = 1.959963984540054 * std::sqrt(variance(v10) / dm + variance(v01) / dn);
  return Interval{area, std::max(0.0, area - half), std::min(1.0, area + half)};
}

}  // namespace dtrain
