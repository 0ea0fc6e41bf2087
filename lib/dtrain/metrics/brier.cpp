#include <cmath>

#include "dtrain/metrics/measure.hpp"
#include "dtrain/metrics/share.hpp"

namespace dtrain {
namespace {

// What a sample adds to its group, as parts of the most that it could add; nothing if its label is unknown.
GroupShare share_of_label(const Predictions& p, size_t i, size_t k) {
  const double label = static_cast<double>(p.label(i, k));
  return std::isnan(label) ? GroupShare{} : GroupShare{std::pow(p.score(i, k) - label, 2), 1};
}

GroupShare share_of_classes(const Predictions& p, size_t i) {
  double sum = 0;
  for (size_t k = 0; k < p.outputs; ++k) sum += std::pow(p.score(i, k) - static_cast<double>(p.label(i, k)), 2);
  return {sum / 2, 1};
}

// Over all samples in their order, so that groups do not change it; NaN without a known label.
double ratio_of(const Predictions& p, const std::function<GroupShare(size_t)>& share) {
  GroupShare total;
  for (size_t i = 0; i < p.samples(); ++i) {
    const GroupShare one = share(i);
    total = {total.part + one.part, total.whole + one.whole};
  }
  return total.whole > 0 ? total.part / total.whole : std::nan("");
}

MetricValues brier_of_labels(const Predictions& p, bool each_class, const Groups* groups) {
  MetricValues values;
  ShareSpread spread;
  double sum = 0;
  int64_t defined = 0;
  for (size_t k = 0; k < p.outputs; ++k) {
    const auto share = [&](size_t i) { return share_of_label(p, i, k); };
    const double value = ratio_of(p, share);
    Measured measured;
    if (!std::isnan(value)) {
      measured.value = value;
      sum += value;
      ++defined;
      if (groups != nullptr) {
        const std::vector<GroupShare> shares = shares_of(*groups, share);
        spread.add(shares);
        if (each_class) measured.confidence = share_confidence(value, {&shares, 1}, groups->noun);
      }
    }
    if (each_class) values.classes.push_back(measured);
  }
  if (defined == 0) return values;
  values.all.value = sum / static_cast<double>(defined);
  if (groups != nullptr) values.all.confidence = spread.confidence(*values.all.value, groups->noun);
  return values;
}

// From 0 to 2; with two classes half of that, as it is that of one of them.
MetricValues brier_of_classes(const Predictions& p, const Groups* groups) {
  const auto share = [&](size_t i) { return share_of_classes(p, i); };
  const double most = p.outputs > 2 ? 2 : 1;
  const double half = ratio_of(p, share);
  MetricValues values;
  values.all.value = most * half;
  if (groups == nullptr) return values;
  const std::vector<GroupShare> shares = shares_of(*groups, share);
  values.all.confidence = share_confidence(half, {&shares, 1}, groups->noun);
  if (auto& interval = values.all.confidence.interval) {
    interval->low *= most;
    interval->high *= most;
  }
  return values;
}

}  // namespace

extern const Metric kBrier = {
    .name = "brier",
    .uses = {{Task::multilabel, 1}, {Task::multiclass}},
    .larger_is_better = false,
    .of_epochs = false,
    .in_table = true,
    .undefined = "no label of this part is known",
    .of_part =
        [](const Predictions& p, bool each_class, const Groups* groups) {
          return p.task == Task::multiclass ? brier_of_classes(p, groups) : brier_of_labels(p, each_class, groups);
        },
};

}  // namespace dtrain
