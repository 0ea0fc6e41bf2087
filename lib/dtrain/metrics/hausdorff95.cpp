#include <algorithm>
#include <cmath>

#include "dtrain/metrics/measure.hpp"

namespace dtrain {
namespace {

// A mean over samples, and how far each group pulls it.
struct MeanDistance {
  double sum = 0;
  double count = 0;
  int64_t undefined = 0;
  std::vector<double> sums;  // per group
  std::vector<double> counts;

  double value() const { return sum / count; }
};

MeanDistance mean_of_class(const Predictions& p, size_t k, const Groups* groups) {
  MeanDistance mean;
  mean.sums.resize(groups == nullptr ? 0 : static_cast<size_t>(groups->count));
  mean.counts.resize(mean.sums.size());
  for (size_t i = 0; i < p.samples(); ++i) {
    const double distance = p.distances[i * p.outputs + k];
    if (std::isnan(distance)) {
      ++mean.undefined;
      continue;
    }
    mean.sum += distance;
    mean.count += 1;
    if (groups == nullptr) continue;
    const auto g = static_cast<size_t>(groups->of[i]);
    mean.sums[g] += distance;
    mean.counts[g] += 1;
  }
  return mean;
}

// Of the mean over these classes, none of them without a distance: Student's, of the groups' influences on it.
Confidence distance_confidence(double value, const std::vector<const MeanDistance*>& classes, const std::string& noun) {
  Confidence confidence;
  double variance = 0;
  std::vector<double> shares;
  for (size_t g = 0; g < classes.front()->sums.size(); ++g) {
    double pull = 0;
    double share = 0;
    bool counts = false;
    for (const MeanDistance* one : classes) {
      pull += (one->sums[g] - one->value() * one->counts[g]) / one->count / static_cast<double>(classes.size());
      share += std::pow(one->counts[g] / one->count, 2);
      counts = counts || one->counts[g] > 0;
    }
    confidence.groups += counts ? 1 : 0;
    variance += pull * pull;
    shares.push_back(share);
  }
  if (confidence.groups < kLeastGroups) {
    confidence.no_interval = too_few(confidence.groups, noun);
    return confidence;
  }
  const auto n = static_cast<double>(confidence.groups);
  const double half = t_quantile(degrees_of(shares)) * std::sqrt(variance * n / (n - 1));
  confidence.interval = Interval{std::max(0.0, value - half), value + half, "Student"};
  return confidence;
}

Measured measured_distance(double value, const std::vector<const MeanDistance*>& classes, const Groups* groups) {
  return {value, groups == nullptr ? Confidence{} : distance_confidence(value, classes, groups->noun)};
}

MetricValues distances_of(const Predictions& p, bool each_class, const Groups* groups) {
  MetricValues values;
  if (each_class) values.classes.resize(p.outputs);
  if (p.distances.empty()) return values;
  std::vector<MeanDistance> means;
  std::vector<const MeanDistance*> defined;
  for (size_t k = 0; k < p.outputs; ++k) means.push_back(mean_of_class(p, k, groups));
  double sum = 0;
  for (size_t k = 0; k < p.outputs; ++k) {
    const MeanDistance* one = &means[k];
    values.all.undefined += one->undefined;
    if (one->count > 0) {
      defined.push_back(one);
      sum += one->value();
    }
    if (!each_class) continue;
    if (one->count > 0) values.classes[k] = measured_distance(one->value(), {one}, groups);
    values.classes[k].undefined = one->undefined;
  }
  if (defined.empty()) return values;
  const int64_t undefined = values.all.undefined;
  values.all = measured_distance(sum / static_cast<double>(defined.size()), defined, groups);
  values.all.undefined = undefined;
  return values;
}

}  // namespace

extern const Metric kHausdorff95 = {
    .name = "hausdorff95_px",
    .uses = {{Task::segmentation, 2}},
    .larger_is_better = false,
    .of_epochs = false,
    .digits = 2,
    .undefined = "in each picture the mask or what was predicted is empty",
    .of_part = distances_of,
};

}  // namespace dtrain
