#include "dtrain/metrics/auroc.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "dtrain/base/error.hpp"

namespace dtrain {
namespace {

// Rank of each value among all, from 1; equal values share their mean rank.
std::vector<double> midranks(std::span<const double> values) {
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

// The samples that count, positives first.
struct Sides {
  std::vector<size_t> samples;
  std::vector<double> scores;
  size_t positives = 0;

  size_t negatives() const { return samples.size() - positives; }
};

std::optional<Sides> sides_of(std::span<const double> scores, std::span<const float> labels) {
  check(scores.size() == labels.size(), "each score has a label");
  if (std::any_of(scores.begin(), scores.end(), [](double score) { return std::isnan(score); })) return std::nullopt;
  Sides sides;
  for (const float wanted : {1.0F, 0.0F}) {
    for (size_t i = 0; i < scores.size(); ++i)
      if (labels[i] == wanted) sides.samples.push_back(i);
    if (wanted == 1) sides.positives = sides.samples.size();
  }
  if (sides.positives == 0 || sides.negatives() == 0) return std::nullopt;
  for (const size_t i : sides.samples) sides.scores.push_back(scores[i]);
  return sides;
}

// Ranks are whole or half numbers: the sum is exact in any order.
double area_of(const Sides& sides, const std::vector<double>& ranks) {
  const auto m = static_cast<double>(sides.positives);
  const auto n = static_cast<double>(sides.negatives());
  const double rank_sum =
      std::accumulate(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(sides.positives), 0.0);
  return (rank_sum - m * (m + 1) / 2) / (m * n);
}

// The area without the pairs that lie within one group.
double area_apart(const Sides& sides, const Groups& groups, const AurocParts& parts) {
  struct Sample {
    int64_t group;
    double score;
    bool positive;
  };
  std::vector<Sample> mixed;  // of the groups that have both
  double pairs = 0;
  for (const AurocGroup& group : parts.groups)
    pairs += static_cast<double>(group.positives) * static_cast<double>(group.negatives);
  if (pairs == 0) return parts.value;
  for (size_t i = 0; i < sides.samples.size(); ++i) {
    const int64_t g = groups.of[sides.samples[i]];
    const AurocGroup& group = parts.groups[static_cast<size_t>(g)];
    if (group.positives > 0 && group.negatives > 0) mixed.push_back({g, sides.scores[i], i < sides.positives});
  }
  std::sort(mixed.begin(), mixed.end(),
            [](const Sample& a, const Sample& b) { return std::tie(a.group, a.score) < std::tie(b.group, b.score); });
  double won = 0;
  double below = 0;  // negatives of this group with a lower score
  for (size_t i = 0, j = 0; i < mixed.size(); i = j) {
    if (i > 0 && mixed[i].group != mixed[i - 1].group) below = 0;
    double above_them = 0;
    double tied = 0;
    for (; j < mixed.size() && mixed[j].group == mixed[i].group && mixed[j].score == mixed[i].score; ++j)
      (mixed[j].positive ? above_them : tied) += 1;
    won += above_them * (below + tied / 2);
    below += tied;
  }
  const double all = static_cast<double>(sides.positives) * static_cast<double>(sides.negatives());
  return pairs < all ? std::clamp((parts.value * all - won) / (all - pairs), 0.0, 1.0) : parts.value;
}

}  // namespace

std::optional<double> auroc(std::span<const double> scores, std::span<const float> labels) {
  const auto sides = sides_of(scores, labels);
  return sides ? std::optional(area_of(*sides, midranks(sides->scores))) : std::nullopt;
}

std::optional<AurocParts> auroc_parts(std::span<const double> scores, std::span<const float> labels,
                                      const Groups& groups) {
  check(groups.of.size() == scores.size(), "each sample has a group");
  const auto sides = sides_of(scores, labels);
  if (!sides) return std::nullopt;
  const size_t m = sides->positives;
  const std::vector<double> among_all = midranks(sides->scores);
  const std::vector<double> among_positives = midranks(std::span(sides->scores).first(m));
  const std::vector<double> among_negatives = midranks(std::span(sides->scores).subspan(m));
  AurocParts parts;
  parts.value = area_of(*sides, among_all);
  parts.groups.resize(static_cast<size_t>(groups.count));
  for (size_t i = 0; i < sides->samples.size(); ++i) {
    AurocGroup& group = parts.groups[static_cast<size_t>(groups.of[sides->samples[i]])];
    if (i < m) {
      ++group.positives;
      group.above += (among_all[i] - among_positives[i]) / static_cast<double>(sides->negatives());
    } else {
      ++group.negatives;
      group.below += 1 - (among_all[i] - among_negatives[i - m]) / static_cast<double>(m);
    }
  }
  parts.apart = area_apart(*sides, groups, parts);
  return parts;
}

}  // namespace dtrain
