#include "dtrain/metrics/measure.hpp"
#include "dtrain/metrics/share.hpp"

namespace dtrain {

static bool is_right(const Predictions& p, size_t sample) { return p.label(sample, p.most_probable(sample)) == 1; }

static MetricValues accuracy_of(const Predictions& p, bool, const Groups* groups) {
  double right = 0;
  for (size_t i = 0; i < p.samples(); ++i) right += is_right(p, i) ? 1 : 0;
  MetricValues values;
  values.all.value = right / static_cast<double>(p.samples());
  if (groups == nullptr) return values;
  const auto shares = shares_of(*groups, [&](size_t i) { return GroupShare{is_right(p, i) ? 1.0 : 0.0, 1}; });
  values.all.confidence = share_confidence(*values.all.value, {&shares, 1}, groups->noun, true);
  return values;
}

extern const Metric kAccuracy = {
    .name = "accuracy",
    .uses = {{Task::multiclass}},
    .of_part = accuracy_of,
    .of_training =
        [](const TrainingCounts& counts) {
          return static_cast<double>(counts.correct) / static_cast<double>(counts.samples);
        },
};

}  // namespace dtrain
