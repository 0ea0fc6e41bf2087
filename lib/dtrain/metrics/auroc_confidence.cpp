#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtrain/base/text.hpp"
#include "dtrain/metrics/auroc.hpp"

namespace dtrain {
namespace {

// What a variance over so many groups is multiplied by to be without bias.
double correction(int64_t groups) { return static_cast<double>(groups) / static_cast<double>(groups - 1); }

// One output's parts as the formulas want them.
struct Output {
  double value = 0;
  double m = 0;  // positives
  double n = 0;
  int64_t with_positives = 0;  // groups
  int64_t with_negatives = 0;

  explicit Output(const AurocParts& parts) : value(parts.value) {
    for (const AurocGroup& group : parts.groups) {
      m += static_cast<double>(group.positives);
      n += static_cast<double>(group.negatives);
      with_positives += group.positives > 0 ? 1 : 0;
      with_negatives += group.negatives > 0 ? 1 : 0;
    }
  }
  // How far the group's positives, or negatives, pull the area away from where it is.
  double pull_of_positives(const AurocGroup& g) const {
    return (g.above - static_cast<double>(g.positives) * value) / m;
  }
  double pull_of_negatives(const AurocGroup& g) const {
    return (g.below - static_cast<double>(g.negatives) * value) / n;
  }
};

// Each group's share in the variance if pictures of one group were alike: the two sides' parts, by the squares of
// sizes.
void add_shares(const AurocParts& parts, const Output& output, std::vector<double>& shares) {
  double positives2 = 0;
  double negatives2 = 0;
  double of_positives = 0;
  double of_negatives = 0;
  for (const AurocGroup& g : parts.groups) {
    positives2 += static_cast<double>(g.positives * g.positives);
    negatives2 += static_cast<double>(g.negatives * g.negatives);
    of_positives += std::pow(output.pull_of_positives(g), 2);
    of_negatives += std::pow(output.pull_of_negatives(g), 2);
  }
  for (size_t i = 0; i < shares.size(); ++i) {
    const AurocGroup& g = parts.groups[i];
    shares[i] += of_positives * static_cast<double>(g.positives * g.positives) / positives2 +
                 of_negatives * static_cast<double>(g.negatives * g.negatives) / negatives2;
  }
}

// How many groups have positives, or negatives (the fewer of both), that speak against a perfect order.
int64_t groups_against(std::span<const AurocParts> outputs, bool perfect_is_one) {
  int64_t positives = 0;
  int64_t negatives = 0;
  const auto against = [&](int64_t samples, double share) {
    return perfect_is_one ? share < static_cast<double>(samples) : share > 0;
  };
  for (size_t i = 0; i < outputs.front().groups.size(); ++i) {
    const auto any = [&](auto speaks) { return std::any_of(outputs.begin(), outputs.end(), speaks) ? 1 : 0; };
    positives += any([&](const AurocParts& p) { return against(p.groups[i].positives, p.groups[i].above); });
    negatives += any([&](const AurocParts& p) { return against(p.groups[i].negatives, p.groups[i].below); });
  }
  return std::min(positives, negatives);
}

// Variance of the mean: each group's pull on all outputs together, as Obuchowski's covariances sum up.
double variance_of_mean(std::span<const AurocParts> outputs, const std::vector<Output>& facts) {
  double sum = 0;
  for (size_t i = 0; i < outputs.front().groups.size(); ++i) {
    double pull = 0;
    for (size_t k = 0; k < outputs.size(); ++k)
      pull += std::sqrt(correction(facts[k].with_positives)) * facts[k].pull_of_positives(outputs[k].groups[i]) +
              std::sqrt(correction(facts[k].with_negatives)) * facts[k].pull_of_negatives(outputs[k].groups[i]);
    sum += pull * pull;
  }
  const auto k = static_cast<double>(outputs.size());
  return sum / (k * k);
}

// Groups with a known label of any output.
struct Known {
  int64_t groups = 0;
  bool single = true;  // none has two samples
};

Known known_groups(std::span<const AurocParts> outputs) {
  Known known;
  for (size_t i = 0; i < outputs.front().groups.size(); ++i) {
    int64_t most = 0;
    for (const AurocParts& parts : outputs)
      most = std::max(most, parts.groups[i].positives + parts.groups[i].negatives);
    known.groups += most > 0 ? 1 : 0;
    known.single = known.single && most < 2;
  }
  return known;
}

// Why the variance cannot be estimated; "" where it can.
std::string one_sided(const std::vector<Output>& facts, const std::string& noun) {
  for (const Output& output : facts)
    for (const auto& [groups, name] :
         {std::pair(output.with_positives, "positives"), std::pair(output.with_negatives, "negatives")})
      if (groups < 2)
        return std::string("all ") + name + (facts.size() > 1 ? " of an output" : "") + " are in one " + noun;
  return "";
}

}  // namespace

double obuchowski_variance(const AurocParts& parts) {
  const Output output(parts);
  double positive = 0;
  double negative = 0;
  double both = 0;
  for (const AurocGroup& g : parts.groups) {
    const double a = output.pull_of_positives(g);
    const double b = output.pull_of_negatives(g);
    positive += a * a;
    negative += b * b;
    both += a * b;
  }
  return correction(output.with_positives) * positive + correction(output.with_negatives) * negative +
         2 * correction(known_groups({&parts, 1}).groups) * both;
}

Confidence auroc_confidence(std::span<const AurocParts> outputs, const std::string& noun) {
  const Known known = known_groups(outputs);
  Confidence confidence;
  confidence.groups = known.groups;
  if (known.groups < kLeastGroups) {
    confidence.no_interval = too_few(known.groups, noun);
    return confidence;
  }
  const std::vector<Output> facts(outputs.begin(), outputs.end());
  confidence.no_interval = one_sided(facts, noun);
  if (!confidence.no_interval.empty()) return confidence;
  double value = 0;
  double centre = 0;
  double edge = 0;
  std::vector<double> shares(outputs.front().groups.size(), 0.0);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const double weight = 1 / static_cast<double>(outputs.size());
    value += weight * outputs[k].value;
    centre += weight * outputs[k].apart;
    edge += weight * newcombe_edge(facts[k].with_positives, facts[k].with_negatives);
    add_shares(outputs[k], facts[k], shares);
  }
  const bool high = value >= 0.5;
  Interval interval{high ? edge : 0, high ? 1 : 1 - edge, "Newcombe"};
  if (centre > 0 && centre < 1) {
    const double variance = outputs.size() == 1 ? obuchowski_variance(outputs[0]) : variance_of_mean(outputs, facts);
    if (variance <= 0) {
      confidence.no_interval = "the scores do not vary";
      return confidence;
    }
    Interval estimated = logit_interval(centre, variance, t_quantile(degrees_of(shares)));
    if (groups_against(outputs, high) < kLeastGroups) {
      if (high) estimated.low = std::min(estimated.low, interval.low);
      if (!high) estimated.high = std::max(estimated.high, interval.high);
    }
    interval = {estimated.low, estimated.high, known.single ? "DeLong" : "Obuchowski"};
  }
  interval.low = std::min(interval.low, value);
  interval.high = std::max(interval.high, value);
  confidence.interval = interval;
  return confidence;
}

}  // namespace dtrain
