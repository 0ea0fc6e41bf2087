#include "dtrain/metrics/share.hpp"

#include <algorithm>
#include <cmath>

namespace dtrain {

static double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::vector<GroupShare> shares_of(const Groups& groups, const std::function<GroupShare(size_t)>& share) {
  std::vector<GroupShare> sums(static_cast<size_t>(groups.count));
  for (size_t i = 0; i < groups.of.size(); ++i) {
    const GroupShare one = share(i);
    GroupShare& sum = sums[static_cast<size_t>(groups.of[i])];
    sum = {sum.part + one.part, sum.whole + one.whole};
  }
  return sums;
}

void ShareSpread::add(std::span<const GroupShare> groups) {
  GroupShare total;
  for (const GroupShare& group : groups) total = {total.part + group.part, total.whole + group.whole};
  groups_.resize(groups.size());
  whole_ += total.whole;
  classes_ += 1;
  for (size_t g = 0; g < groups.size(); ++g) {
    const GroupShare& one = groups[g];
    Member& member = groups_[g];
    const double size = ratio(one.whole, total.whole);
    member.all = {member.all.part + one.part, member.all.whole + one.whole};
    member.pull += ratio(one.part - ratio(total.part, total.whole) * one.whole, total.whole);
    member.size += size;
    member.share += size * size;
  }
}

Confidence ShareSpread::confidence(double value, const std::string& noun, bool trials) const {
  Confidence confidence;
  int64_t against_one = 0;   // groups with less than the whole
  int64_t against_zero = 0;  // groups with more than nothing
  bool single = true;        // none has more than one trial
  double variance = 0;
  std::vector<double> sizes;
  std::vector<double> shares;
  for (const Member& member : groups_) {
    confidence.groups += member.all.whole > 0 ? 1 : 0;
    against_one += member.all.part < member.all.whole ? 1 : 0;
    against_zero += member.all.part > 0 ? 1 : 0;
    single = single && member.all.whole <= 1;
    variance += member.pull * member.pull;
    sizes.push_back(member.size);
    shares.push_back(member.share);
  }
  if (confidence.groups < kLeastGroups) {
    confidence.no_interval = too_few(confidence.groups, noun);
    return confidence;
  }
  if (!(value >= 0 && value <= 1)) {
    confidence.no_interval = "not all scores are from 0 to 1";
    return confidence;
  }
  if (trials && single) {
    confidence.interval = wilson(value, whole_, kNormalQuantile);
    return confidence;
  }
  const auto n = static_cast<double>(confidence.groups);
  variance *= n / (n - 1) / (classes_ * classes_);
  const double quantile = t_quantile(degrees_of(shares));
  const double if_they_agree = effective_number(sizes);
  // As many independent trials as make Student's interval as wide as the normal one of all trials.
  const double most = trials ? whole_ * std::pow(quantile / kNormalQuantile, 2) : if_they_agree;
  const double of_one_trial = value * (1 - value);
  double independent = most;
  if (variance > 0 && of_one_trial > 0) {
    independent = of_one_trial / variance;
    if (trials) independent = std::min(independent, most);
  }
  if (std::min(against_one, against_zero) < kLeastGroups) independent = std::min(independent, if_they_agree);
  confidence.interval = wilson(value, independent, quantile);
  confidence.interval->method = "clustered Wilson";
  return confidence;
}

Confidence share_confidence(double value, std::span<const std::vector<GroupShare>> classes, const std::string& noun,
                            bool trials) {
  ShareSpread spread;
  for (const std::vector<GroupShare>& groups : classes) spread.add(groups);
  return spread.confidence(value, noun, trials);
}

}  // namespace dtrain
