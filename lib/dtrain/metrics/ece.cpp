#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "dtrain/metrics/measure.hpp"

namespace dtrain {
namespace {

constexpr size_t kBins = 15;

// How sure the network was of the answer that it holds for most probable, and whether that was right; nothing if the
// label is unknown.
struct Answer {
  double confidence = 0;
  bool right = false;
};

// A label is a question with two answers: p for yes, 1 - p for no.
std::optional<Answer> answer_of_label(const Predictions& p, size_t i, size_t k) {
  const float label = p.label(i, k);
  if (std::isnan(label)) return std::nullopt;
  const double score = p.score(i, k);
  return Answer{std::max(score, 1 - score), (score >= 0.5) == (label == 1)};
}

std::optional<Answer> answer_of_classes(const Predictions& p, size_t i) {
  const size_t most = p.most_probable(i);
  return Answer{p.score(i, most), p.label(i, most) == 1};
}

// Bin b is above b/15, and up to (b + 1)/15; for a number.
size_t bin_of(double confidence) {
  auto bin = static_cast<size_t>(std::clamp(std::ceil(confidence * kBins) - 1, 0.0, kBins - 1.0));
  while (bin > 0 && confidence <= static_cast<double>(bin) / kBins) --bin;
  while (bin + 1 < kBins && confidence > static_cast<double>(bin + 1) / kBins) ++bin;
  return bin;
}

// What its interval is made of: the figure is a sum over groups as long as no bin changes its side.
struct Spread {
  std::vector<double> pulls;  // of each group on the figure
  std::vector<double> sizes;  // known samples of each group, as a share of all
  double chance = 0;          // what the figure would be on average if every bin were right
};

struct Calibration {
  double value = 0;
  Spread spread;
};

// Σ over groups of the square of what they add up to in each bin: the variance of a bin's sum, if its mean is 0.
double chance_of(const std::vector<std::array<double, kBins>>& gaps, double samples) {
  double chance = 0;
  for (size_t b = 0; b < kBins; ++b) {
    double squares = 0;
    for (const auto& of_group : gaps) squares += of_group[b] * of_group[b];
    chance += std::sqrt(2 / std::numbers::pi * squares) / samples;
  }
  return chance;
}

// answer: of each sample. Nothing without a known label, or if a score is NaN.
template <class AnswerOf>
std::optional<Calibration> calibration_of(const Predictions& p, const Groups* groups, AnswerOf&& answer) {
  std::array<double, kBins> sums{};  // right - confidence
  double samples = 0;
  const size_t count = groups == nullptr ? 0 : static_cast<size_t>(groups->count);
  std::vector<std::array<double, kBins>> gaps(count);
  std::vector<double> sizes(count);
  for (size_t i = 0; i < p.samples(); ++i) {
    const std::optional<Answer> one = answer(i);
    if (!one) continue;
    if (std::isnan(one->confidence)) return std::nullopt;
    const size_t bin = bin_of(one->confidence);
    const double gap = (one->right ? 1 : 0) - one->confidence;
    sums[bin] += gap;
    samples += 1;
    if (groups == nullptr) continue;
    const auto g = static_cast<size_t>(groups->of[i]);
    gaps[g][bin] += gap;
    sizes[g] += 1;
  }
  if (samples == 0) return std::nullopt;
  Calibration c;
  for (const double sum : sums) c.value += std::abs(sum) / samples;
  if (groups == nullptr) return c;
  c.spread.chance = chance_of(gaps, samples);
  for (size_t g = 0; g < count; ++g) {
    double pull = -c.value * sizes[g];
    for (size_t b = 0; b < kBins; ++b) pull += sums[b] < 0 ? -gaps[g][b] : gaps[g][b];
    c.spread.pulls.push_back(pull / samples);
    c.spread.sizes.push_back(sizes[g] / samples);
  }
  return c;
}

// Of the mean over `outputs` calibrations, whose spreads were added up.
Confidence calibration_confidence(double value, const Spread& sum, double outputs, const std::string& noun) {
  Confidence confidence;
  confidence.groups = std::count_if(sum.sizes.begin(), sum.sizes.end(), [](double size) { return size > 0; });
  if (confidence.groups < kLeastGroups) {
    confidence.no_interval = too_few(confidence.groups, noun);
    return confidence;
  }
  const auto n = static_cast<double>(confidence.groups);
  double variance = 0;
  std::vector<double> shares;
  for (size_t g = 0; g < sum.pulls.size(); ++g) {
    variance += std::pow(sum.pulls[g] / outputs, 2) * n / (n - 1);
    shares.push_back(sum.sizes[g] * sum.sizes[g]);
  }
  const double half = t_quantile(degrees_of(shares)) * std::sqrt(variance);
  confidence.interval = Interval{std::max(0.0, value - half - sum.chance / outputs), std::min(1.0, value + half),
                                 "infinitesimal jackknife"};
  return confidence;
}

void add(Spread& sum, const Spread& one) {
  sum.chance += one.chance;
  sum.pulls.resize(one.pulls.size());
  sum.sizes.resize(one.sizes.size());
  for (size_t g = 0; g < one.pulls.size(); ++g) {
    sum.pulls[g] += one.pulls[g];
    sum.sizes[g] += one.sizes[g];
  }
}

Measured measured_calibration(const std::optional<Calibration>& c, const Groups* groups) {
  if (!c) return {};
  return {c->value, groups == nullptr ? Confidence{} : calibration_confidence(c->value, c->spread, 1, groups->noun)};
}

MetricValues ece_of(const Predictions& p, bool each_class, const Groups* groups) {
  MetricValues values;
  if (p.task == Task::multiclass) {
    values.all =
        measured_calibration(calibration_of(p, groups, [&](size_t i) { return answer_of_classes(p, i); }), groups);
    return values;
  }
  Spread spread;
  double sum = 0;
  double defined = 0;
  for (size_t k = 0; k < p.outputs; ++k) {
    const auto one = calibration_of(p, groups, [&](size_t i) { return answer_of_label(p, i, k); });
    if (each_class) values.classes.push_back(measured_calibration(one, groups));
    if (!one) continue;
    sum += one->value;
    defined += 1;
    add(spread, one->spread);
  }
  if (defined == 0) return values;
  values.all.value = sum / defined;
  if (groups != nullptr)
    values.all.confidence = calibration_confidence(*values.all.value, spread, defined, groups->noun);
  return values;
}

}  // namespace

extern const Metric kEce = {
    .name = "ece",
    .uses = {{Task::multilabel, 1}, {Task::multiclass}},
    .larger_is_better = false,
    .of_epochs = false,
    .in_table = true,
    .undefined = "no label of this part is known, or a score is no number",
    .of_part = ece_of,
};

}  // namespace dtrain
