#include "dtrain/metrics/confusion.hpp"

#include <cmath>

#include "dtrain/metrics/share.hpp"

namespace dtrain {
namespace {

// Multiclass: the answer for each sample, found once and not once for each class.
std::vector<size_t> answers_of(const Predictions& p) {
  std::vector<size_t> answers(p.task == Task::multiclass ? p.samples() : 0);
  for (size_t i = 0; i < answers.size(); ++i) answers[i] = p.most_probable(i);
  return answers;
}

void count_call(const Predictions& p, const std::vector<size_t>& answers, size_t i, size_t k, CallCounts& counts) {
  const float label = p.label(i, k);
  if (std::isnan(label)) return;
  const bool called = answers.empty() ? p.score(i, k) >= p.threshold(k) : answers[i] == k;
  (label == 1 ? (called ? counts.true_positives : counts.false_negatives)
              : (called ? counts.false_positives : counts.true_negatives)) += 1;
}

// A figure for calls that is a part of a whole, linear in the counts. Undefined if the whole is 0.
using CallShare = GroupShare (*)(const CallCounts&);

// The figure of each output, and the mean over those for which it is defined. `trials`: of one output, part and whole
// are counts of trials; of a mean they are not, since its classes weigh the same.
MetricValues calls_of(const Predictions& p, bool each_class, const Groups* groups, CallShare share, bool trials) {
  const std::vector<size_t> answers = answers_of(p);
  MetricValues values;
  ShareSpread spread;
  double sum = 0;
  int64_t defined = 0;
  for (size_t k = 0; k < p.outputs; ++k) {
    std::vector<CallCounts> counts(groups == nullptr ? 1 : static_cast<size_t>(groups->count));
    for (size_t i = 0; i < p.samples(); ++i)
      count_call(p, answers, i, k, counts[groups == nullptr ? 0 : static_cast<size_t>(groups->of[i])]);
    std::vector<GroupShare> shares;
    GroupShare total;
    for (const CallCounts& of_group : counts) {
      const GroupShare& one = shares.emplace_back(share(of_group));
      total = {total.part + one.part, total.whole + one.whole};
    }
    Measured measured;
    if (total.whole > 0) {
      measured.value = total.part / total.whole;
      sum += *measured.value;
      ++defined;
      if (groups != nullptr) {
        spread.add(shares);
        if (each_class) measured.confidence = share_confidence(*measured.value, {&shares, 1}, groups->noun, trials);
      }
    }
    if (each_class) values.classes.push_back(measured);
  }
  if (defined == 0) return values;
  values.all.value = sum / static_cast<double>(defined);
  if (groups != nullptr)
    values.all.confidence = spread.confidence(*values.all.value, groups->noun, trials && defined == 1);
  return values;
}

}  // namespace

std::vector<int64_t> confusion_matrix(const Predictions& p) {
  std::vector<int64_t> counts(p.outputs * p.outputs, 0);
  for (size_t i = 0; i < p.samples(); ++i) {
    const size_t answer = p.most_probable(i);
    for (size_t k = 0; k < p.outputs; ++k)
      if (p.label(i, k) == 1) ++counts[k * p.outputs + answer];
  }
  return counts;
}

std::vector<CallCounts> call_counts(const Predictions& p) {
  const std::vector<size_t> answers = answers_of(p);
  std::vector<CallCounts> counts(p.outputs);
  for (size_t i = 0; i < p.samples(); ++i)
    for (size_t k = 0; k < p.outputs; ++k) count_call(p, answers, i, k, counts[k]);
  return counts;
}

extern const Metric kSensitivity = {
    .name = "sensitivity",
    .uses = {{Task::multilabel, 1}, {Task::multiclass, 2}},
    .of_epochs = false,
    .in_table = true,
    .undefined = "this part lacks positive samples",
    .of_part =
        [](const Predictions& p, bool each_class, const Groups* groups) {
          constexpr CallShare kShare = [](const CallCounts& c) {
            return GroupShare{c.true_positives, c.true_positives + c.false_negatives};
          };
          return calls_of(p, each_class, groups, kShare, true);
        },
};

extern const Metric kSpecificity = {
    .name = "specificity",
    .uses = {{Task::multilabel, 1}, {Task::multiclass, 2}},
    .of_epochs = false,
    .in_table = true,
    .undefined = "this part lacks negative samples",
    .of_part =
        [](const Predictions& p, bool each_class, const Groups* groups) {
          constexpr CallShare kShare = [](const CallCounts& c) {
            return GroupShare{c.true_negatives, c.true_negatives + c.false_positives};
          };
          return calls_of(p, each_class, groups, kShare, true);
        },
};

extern const Metric kPrecision = {
    .name = "precision",
    .uses = {{Task::multilabel, 1}, {Task::multiclass, 2}},
    .of_epochs = false,
    .in_table = true,
    .undefined = "no sample is called positive",
    .of_part =
        [](const Predictions& p, bool each_class, const Groups* groups) {
          constexpr CallShare kShare = [](const CallCounts& c) {
            return GroupShare{c.true_positives, c.true_positives + c.false_positives};
          };
          return calls_of(p, each_class, groups, kShare, true);
        },
};

extern const Metric kF1 = {
    .name = "f1",
    .uses = {{Task::multilabel, 1}, {Task::multiclass, 2}},
    .of_epochs = false,
    .in_table = true,
    .undefined = "no sample is positive or called so",
    .of_part =
        [](const Predictions& p, bool each_class, const Groups* groups) {
          constexpr CallShare kShare = [](const CallCounts& c) {
            return GroupShare{2 * c.true_positives, 2 * c.true_positives + c.false_positives + c.false_negatives};
          };
          return calls_of(p, each_class, groups, kShare, false);
        },
};

}  // namespace dtrain
