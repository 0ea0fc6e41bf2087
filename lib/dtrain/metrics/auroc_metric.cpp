#include "dtrain/metrics/auroc.hpp"
#include "dtrain/metrics/measure.hpp"

namespace dtrain {
namespace {

// Of output `k`. What its interval is made of is added to `all_parts`.
Measured auroc_of_output(const Predictions& p, size_t k, const Groups* groups, std::vector<AurocParts>& all_parts) {
  std::vector<double> scores;
  std::vector<float> labels;
  for (size_t i = 0; i < p.samples(); ++i) {
    scores.push_back(p.score(i, k));
    labels.push_back(p.label(i, k));
  }
  if (groups == nullptr) return {auroc(scores, labels), {}};
  const std::optional<AurocParts> parts = auroc_parts(scores, labels, *groups);
  if (!parts) return {};
  all_parts.push_back(*parts);
  return {parts->value, auroc_confidence({&*parts, 1}, groups->noun)};
}

// One for each output, and their mean over those that are defined. Where classes have none of their own there are two,
// whose areas are the same: that of the second stands for both.
MetricValues auroc_of(const Predictions& p, bool each_class, const Groups* groups) {
  std::vector<AurocParts> parts;
  if (!each_class) return {auroc_of_output(p, p.outputs - 1, groups, parts), {}};
  MetricValues values;
  double sum = 0;
  int64_t defined = 0;
  for (size_t k = 0; k < p.outputs; ++k) {
    const Measured& one = values.classes.emplace_back(auroc_of_output(p, k, groups, parts));
    if (!one.value) continue;
    sum += *one.value;
    ++defined;
  }
  if (defined == 0) return values;
  values.all.value = sum / static_cast<double>(defined);
  if (groups != nullptr) values.all.confidence = auroc_confidence(parts, groups->noun);
  return values;
}

}  // namespace

extern const Metric kAuroc = {
    .name = "auroc",
    .uses = {{Task::multilabel, 1}, {Task::multiclass, 3}},
    .undefined = "this part lacks positive or negative samples",
    .of_part = auroc_of,
};

}  // namespace dtrain
