#include "dtrain/metrics/share.hpp"

#include <algorithm>
#include <cmath>

namespace dtrain {
namespace {

// What the groups are, over all classes.
struct Spread {
  int64_t groups = 0;          // that have part in a whole
  int64_t against_one = 0;     // those with less than the whole
  int64_t against_zero = 0;    // those with more than nothing
  bool single = true;          // none has more than one trial
  double whole = 0;            // of all groups
  double variance = 0;         // of the figure
  std::vector<double> sizes;   // of each group
  std::vector<double> shares;  // of each group in the variance if its samples agreed
};

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

Spread spread_of(std::span<const std::vector<GroupShare>> classes) {
  std::vector<GroupShare> totals;
  for (const auto& groups : classes) {
    GroupShare& total = totals.emplace_back();
    for (const GroupShare& group : groups) total = {total.part + group.part, total.whole + group.whole};
  }
  Spread spread;
  for (const GroupShare& total : totals) spread.whole += total.whole;
  for (size_t g = 0; g < classes.front().size(); ++g) {
    GroupShare all;
    double pull = 0;
    double size = 0;
    double share = 0;
    for (size_t k = 0; k < classes.size(); ++k) {
      const GroupShare& one = classes[k][g];
      all = {all.part + one.part, all.whole + one.whole};
      pull += ratio(one.part - ratio(totals[k].part, totals[k].whole) * one.whole, totals[k].whole);
      size += ratio(one.whole, totals[k].whole);
      share += ratio(one.whole, totals[k].whole) * ratio(one.whole, totals[k].whole);
    }
    spread.groups += all.whole > 0 ? 1 : 0;
    spread.against_one += all.part < all.whole ? 1 : 0;
    spread.against_zero += all.part > 0 ? 1 : 0;
    spread.single = spread.single && all.whole <= 1;
    spread.variance += pull * pull;
    spread.sizes.push_back(size);
    spread.shares.push_back(share);
  }
  const auto n = static_cast<double>(spread.groups);
  const auto k = static_cast<double>(classes.size());
  if (spread.groups > 1) spread.variance *= n / (n - 1) / (k * k);
  return spread;
}

}  // namespace

std::vector<GroupShare> shares_of(const Groups& groups, const std::function<GroupShare(size_t)>& share) {
  std::vector<GroupShare> sums(static_cast<size_t>(groups.count));
  for (size_t i = 0; i < groups.of.size(); ++i) {
    const GroupShare one = share(i);
    GroupShare& sum = sums[static_cast<size_t>(groups.of[i])];
    sum = {sum.part + one.part, sum.whole + one.whole};
  }
  return sums;
}

Confidence share_confidence(double value, std::span<const std::vector<GroupShare>> classes, const std::string& noun,
                            bool trials) {
  const Spread spread = spread_of(classes);
  Confidence confidence;
  confidence.groups = spread.groups;
  if (spread.groups < kLeastGroups) {
    confidence.no_interval = too_few(spread.groups, noun);
    return confidence;
  }
  if (trials && spread.single) {
    confidence.interval = wilson(value, spread.whole, kNormalQuantile);
    return confidence;
  }
  const double quantile = t_quantile(degrees_of(spread.shares));
  const double if_they_agree = effective_number(spread.sizes);
  // As many independent trials as make Student's interval as wide as the normal one of all trials.
  const double most = trials ? spread.whole * std::pow(quantile / kNormalQuantile, 2) : if_they_agree;
  const double of_one_trial = value * (1 - value);
  double independent = most;
  if (spread.variance > 0 && of_one_trial > 0) {
    independent = of_one_trial / spread.variance;
    if (trials) independent = std::min(independent, most);
  }
  if (std::min(spread.against_one, spread.against_zero) < kLeastGroups)
    independent = std::min(independent, if_they_agree);
  confidence.interval = wilson(value, independent, quantile);
  confidence.interval->method = "clustered Wilson";
  return confidence;
}

}  // namespace dtrain
