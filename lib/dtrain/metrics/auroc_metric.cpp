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

// Of output `k`, for both; nothing if either is undefined.
std::optional<AurocPair> pair_of_output(const Predictions& a, const Predictions& b, size_t k, const Groups& groups) {
  std::vector<AurocParts> of_a;
  std::vector<AurocParts> of_b;
  auroc_of_output(a, k, &groups, of_a);
  auroc_of_output(b, k, &groups, of_b);
  if (of_a.empty() || of_b.empty()) return std::nullopt;
  return AurocPair{std::move(of_a.front()), std::move(of_b.front())};
}

// The outputs are those of auroc_of(). An area is undefined for both or, if scores are NaN, for neither of interest.
MetricPairs auroc_pairs(const Predictions& a, const Predictions& b, bool each_class, const Groups& groups) {
  MetricPairs pairs;
  std::vector<AurocPair> defined;
  for (size_t k = each_class ? 0 : a.outputs - 1; k < a.outputs; ++k) {
    std::optional<AurocPair> one = pair_of_output(a, b, k, groups);
    if (each_class) pairs.classes.push_back(one ? paired_auroc({&*one, 1}, groups.noun) : PairedMeasure{});
    if (one) defined.push_back(std::move(*one));
  }
  if (!defined.empty()) pairs.all = paired_auroc(defined, groups.noun);
  return pairs;
}

}  // namespace

extern const Metric kAuroc = {
    .name = "auroc",
    .uses = {{Task::multilabel, 1}, {Task::multiclass, 3}},
    .undefined = "this part lacks positive or negative samples",
    .of_part = auroc_of,
    .of_pair = auroc_pairs,
    .of_ranks = true,
};

}  // namespace dtrain
