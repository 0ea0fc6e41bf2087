#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "dtrain/metrics/confusion.hpp"
#include "dtrain/metrics/paired.hpp"

namespace dtrain {
namespace {

// How bad an answer is for a label, 0 where they are the same; only ratios count.
using Cost = double (*)(size_t label, size_t answer);

// What a kappa is made of: the mean cost of the answers, and what it would be if the same answers were dealt out to the
// same labels by chance.
struct Agreement {
  std::vector<double> labels;     // share of the samples with each
  std::vector<double> answers;    // the same
  std::vector<double> of_label;   // mean cost of each label if its answers are dealt out by chance
  std::vector<double> of_answer;  // the same of each answer, with the labels
  double observed = 0;
  double by_chance = 0;  // 0 if all labels and answers are of one class

  double kappa() const { return 1 - observed / by_chance; }
};

Agreement agreement_of(const Predictions& p, Cost cost) {
  const size_t classes = p.outputs;
  const std::vector<int64_t> counts = confusion_matrix(p);
  const std::vector<double> none(classes, 0.0);
  Agreement a{none, none, none, none};
  for (size_t i = 0; i < classes; ++i)
    for (size_t j = 0; j < classes; ++j) {
      const double share = static_cast<double>(counts[i * classes + j]) / static_cast<double>(p.samples());
      a.labels[i] += share;
      a.answers[j] += share;
      a.observed += share * cost(i, j);
    }
  for (size_t i = 0; i < classes; ++i)
    for (size_t j = 0; j < classes; ++j) {
      a.of_label[i] += a.answers[j] * cost(i, j);
      a.of_answer[j] += a.labels[i] * cost(i, j);
    }
  for (size_t i = 0; i < classes; ++i) a.by_chance += a.labels[i] * a.of_label[i];
  return a;
}

size_t label_of(const Predictions& p, size_t sample) {
  size_t k = 0;
  while (k + 1 < p.outputs && p.label(sample, k) != 1) ++k;
  return k;
}

size_t most_frequent(const std::vector<double>& shares) {
  return static_cast<size_t>(std::ranges::max_element(shares) - shares.begin());
}

// How far each sample pulls the kappa away from where it is: its derivative by the sample's weight.
std::vector<double> pulls_on_kappa(const Predictions& p, const Agreement& a, Cost cost) {
  const double apart = 1 - a.kappa();
  const double scale = a.by_chance * static_cast<double>(p.samples());
  std::vector<double> pulls;
  for (size_t s = 0; s < p.samples(); ++s) {
    const size_t i = label_of(p, s);
    const size_t j = p.most_probable(s);
    pulls.push_back((apart * (a.of_label[i] + a.of_answer[j] - a.by_chance) - cost(i, j)) / scale);
  }
  return pulls;
}

// Below it a variance is what rounding leaves of 0: pulls that are the same in every group add up to nothing.
constexpr double kNoVariance = 1e-20;

// What an interval or a test is made of.
struct KappaSpread {
  int64_t groups = 0;
  double variance = 0;
  int64_t degrees = 1;
};

struct LabelPull {
  double size = 0;
  double pull = 0;
};

// As with positives and negatives: the samples of each label have their part in the variance, and in it groups weigh by
// the squares of their sizes. So a kappa with rare labels in three patients rests on three.
void add_label_shares(const std::map<size_t, LabelPull>& of_label, std::vector<double>& shares) {
  double sizes = 0;
  double pulls = 0;
  for (const auto& [group, one] : of_label) {
    sizes += one.size * one.size;
    pulls += one.pull * one.pull;
  }
  for (const auto& [group, one] : of_label) shares[group] += pulls * one.size * one.size / sizes;
}

KappaSpread spread_of(const Predictions& p, const std::vector<double>& pulls, const Groups& groups) {
  std::vector<std::map<size_t, LabelPull>> of_labels(p.outputs);
  std::map<size_t, double> of_groups;
  for (size_t s = 0; s < p.samples(); ++s) {
    const auto group = static_cast<size_t>(groups.of[s]);
    LabelPull& one = of_labels[label_of(p, s)][group];
    one = {one.size + 1, one.pull + pulls[s]};
    of_groups[group] += pulls[s];
  }
  std::vector<double> shares(static_cast<size_t>(groups.count));
  for (const auto& of_label : of_labels) add_label_shares(of_label, shares);
  KappaSpread spread{.groups = static_cast<int64_t>(of_groups.size()), .degrees = degrees_of(shares)};
  for (const auto& [group, pull] : of_groups) spread.variance += pull * pull;
  const auto number = static_cast<double>(spread.groups);
  if (spread.groups > 1) spread.variance *= number / (number - 1);
  return spread;
}

// The number of groups with a sample of which `holds` is true.
template <class Holds>
int64_t groups_where(const Groups& groups, Holds&& holds) {
  std::set<int64_t> found;
  for (size_t s = 0; s < groups.of.size(); ++s)
    if (holds(s)) found.insert(groups.of[s]);
  return static_cast<int64_t>(found.size());
}

// Why so few groups cannot tell how much a kappa varies; "" if they can. A network that always gives the same answer
// has a kappa of 0 whatever the samples are, so answers must vary too.
std::string too_little_varies(const Predictions& p, const Agreement& a, const Groups& groups) {
  const size_t label = most_frequent(a.labels);
  const size_t answer = most_frequent(a.answers);
  const int64_t wrong = groups_where(groups, [&](size_t s) { return label_of(p, s) != p.most_probable(s); });
  const int64_t labels = groups_where(groups, [&](size_t s) { return label_of(p, s) != label; });
  const int64_t answers = groups_where(groups, [&](size_t s) { return p.most_probable(s) != answer; });
  if (wrong < kLeastGroups) return "wrong answers for " + too_few(wrong, groups.noun);
  if (labels < kLeastGroups) return "labels besides the most frequent one for " + too_few(labels, groups.noun);
  if (answers < kLeastGroups) return "answers besides the most frequent one for " + too_few(answers, groups.noun);
  return "";
}

// Kappa lies between -1 and 1, so (1 + kappa) / 2 has a logit: symmetrical around it is symmetrical on Fisher's scale.
Confidence kappa_confidence(const Predictions& p, const Agreement& a, Cost cost, const Groups& groups) {
  const KappaSpread spread = spread_of(p, pulls_on_kappa(p, a, cost), groups);
  Confidence confidence;
  confidence.groups = spread.groups;
  confidence.no_interval =
      spread.groups < kLeastGroups ? too_few(spread.groups, groups.noun) : too_little_varies(p, a, groups);
  if (!confidence.no_interval.empty()) return confidence;
  if (spread.variance < kNoVariance || a.kappa() <= -1) {
    confidence.no_interval = "it is the same whichever " + groups.noun + " is left out";
    return confidence;
  }
  const Interval half = logit_interval((1 + a.kappa()) / 2, spread.variance / 4, t_quantile(spread.degrees));
  confidence.interval = Interval{2 * half.low - 1, 2 * half.high - 1, "delta method"};
  return confidence;
}

MetricValues kappa_of(const Predictions& p, const Groups* groups, Cost cost) {
  const Agreement agreement = agreement_of(p, cost);
  MetricValues values;
  if (agreement.by_chance <= 0) return values;
  values.all.value = agreement.kappa();
  if (groups != nullptr) values.all.confidence = kappa_confidence(p, agreement, cost, *groups);
  return values;
}

// The bootstrap's test would judge each group alone, where most kappas are 0 or undefined.
MetricPairs kappa_pairs(const Predictions& a, const Predictions& b, const Groups& groups, Cost cost) {
  MetricPairs pairs;
  const Agreement of_a = agreement_of(a, cost);
  const Agreement of_b = agreement_of(b, cost);
  if (of_a.by_chance <= 0 || of_b.by_chance <= 0) return pairs;
  std::vector<double> pulls = pulls_on_kappa(b, of_b, cost);
  const std::vector<double> less = pulls_on_kappa(a, of_a, cost);
  for (size_t s = 0; s < pulls.size(); ++s) pulls[s] -= less[s];
  const KappaSpread spread = spread_of(a, pulls, groups);
  const int64_t differing = groups_where(groups, [&](size_t s) { return a.most_probable(s) != b.most_probable(s); });
  std::string& no_test = pairs.all.no_test;
  if (spread.groups < kLeastGroups)
    no_test = too_few(spread.groups, groups.noun);
  else if (differing == 0)
    no_test = "the same in every " + groups.noun;
  else if (differing < kLeastGroups)
    no_test = "they differ in " + too_few(differing, groups.noun);
  else if (spread.variance < kNoVariance)
    no_test = "it is the same whichever " + groups.noun + " is left out";
  if (!no_test.empty()) return pairs;
  const double difference = of_b.kappa() - of_a.kappa();
  const double error = std::sqrt(spread.variance);
  const double half = t_quantile(spread.degrees) * error;
  pairs.all.test = PairedTest{.difference = difference,
                              .low = std::max(-2.0, difference - half),
                              .high = std::min(2.0, difference + half),
                              .p = t_p(difference / error, spread.degrees),
                              .method = "delta method",
                              .statistic = difference / error,
                              .degrees = spread.degrees};
  return pairs;
}

double cost_of_any(size_t label, size_t answer) { return label == answer ? 0 : 1; }

double cost_of_distance(size_t label, size_t answer) {
  const double distance = static_cast<double>(label) - static_cast<double>(answer);
  return distance * distance;
}

constexpr const char* kUndefined = "all labels and answers of this part are of one class";

}  // namespace

/// Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20:37–46, 1960.
extern const Metric kKappa = {
    .name = "kappa",
    .uses = {{Task::multiclass}},
    .of_epochs = false,
    .undefined = kUndefined,
    .of_part = [](const Predictions& p, bool, const Groups* groups) { return kappa_of(p, groups, cost_of_any); },
    .of_pair = [](const Predictions& a, const Predictions& b, bool,
                  const Groups& groups) { return kappa_pairs(a, b, groups, cost_of_any); },
};

/// Cohen, "Weighted kappa", Psychological Bulletin 70:213–220, 1968, with the squares of distances between classes in
/// their order, as gradings are judged by.
extern const Metric kKappaQuadratic = {
    .name = "kappa_quadratic",
    .uses = {{Task::multiclass}},
    .of_epochs = false,
    .undefined = kUndefined,
    .of_part = [](const Predictions& p, bool, const Groups* groups) { return kappa_of(p, groups, cost_of_distance); },
    .of_pair = [](const Predictions& a, const Predictions& b, bool,
                  const Groups& groups) { return kappa_pairs(a, b, groups, cost_of_distance); },
};

}  // namespace dtrain
