#include "dtrain/study/rate_advice.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/base/text.hpp"

namespace dtrain {
namespace {

constexpr const char* kScale = "schedule.scale_with_ranks";
constexpr const char* kWarmup = "schedule.warmup";

// As series_of() has it; nothing for a series of something else.
std::optional<RateRule> rule_of(const std::string& series) {
  const std::string first = std::string(kScale) + "=";
  const std::string second = std::string(", ") + kWarmup + "=";
  const size_t at = series.find(second);
  if (!series.starts_with(first) || at == std::string::npos) return std::nullopt;
  return RateRule{series.substr(first.size(), at - first.size()), series.substr(at + second.size())};
}

// A sample's variance has a median below its mean: that of chi squared with so many degrees of freedom, by Wilson and
// Hilferty ("The distribution of chi-square", PNAS 17, 1931).
double median_share(double freedom) { return std::pow(1 - 2 / (9 * freedom), 3); }

std::optional<double> noise_of(const std::vector<const AdvisedRule*>& rules) {
  std::vector<double> variances;
  for (const AdvisedRule* rule : rules)
    if (rule->sound() && rule->loss.sd) variances.push_back(*rule->loss.sd * *rule->loss.sd);
  if (variances.empty()) return std::nullopt;
  std::sort(variances.begin(), variances.end());
  const size_t half = variances.size() / 2;
  const double median = variances.size() % 2 == 1 ? variances[half] : (variances[half - 1] + variances[half]) / 2;
  return std::sqrt(median / median_share(static_cast<double>(rules.front()->loss.count - 1)));
}

AdvisedRule& rule_among(std::vector<AdvisedRule>& rules, const RateRule& rule, int64_t ranks) {
  const auto same = std::find_if(rules.begin(), rules.end(), [&](const AdvisedRule& one) { return one.rule == rule; });
  if (same != rules.end()) return *same;
  return rules.emplace_back(AdvisedRule{.rule = rule, .ranks = ranks});
}

AdvisedRule judged(AdvisedRule rule, const std::vector<AdviceRun>& runs, int64_t seeds) {
  std::vector<double> losses;
  std::vector<double> best;
  int64_t over = 0;
  for (const AdviceRun& run : runs) {
    if (run.ranks != rule.ranks || rule_of(run.series) != rule.rule) continue;
    const bool lost = run.diverged || (run.finished && !run.loss);
    over += run.finished || lost ? 1 : 0;
    rule.diverged += lost ? 1 : 0;
    if (lost || !run.finished) continue;
    losses.push_back(*run.loss);
    if (run.best) best.push_back(*run.best);
  }
  rule.whole = over == seeds;
  rule.loss = spread_of(losses);
  rule.best = spread_of(best);
  return rule;
}

}  // namespace

std::string RateRule::text() const {
  if (warmup != "none") return scale + ", warmup " + warmup;
  return scale == "none" ? scale : scale + " without warmup";
}

SweepPlan advice_plan(int64_t logical_ranks, const RateRule& present, const std::string& warmup, int64_t repeat) {
  std::vector<RateRule> rules = {{}};
  for (const char* scale : {"sqrt", "two_thirds", "linear"})
    for (const std::string& length : {std::string("none"), warmup}) rules.push_back({scale, length});
  if (std::find(rules.begin(), rules.end(), present) == rules.end()) rules.push_back(present);
  SweepPlan plan{.ranks = {1, logical_ranks}, .over = {{kScale, {}}, {kWarmup, {}}}, .zip = true, .repeat = repeat};
  plan.first_alone = true;
  for (const RateRule& rule : rules) {
    plan.over[0].values.push_back(rule.scale);
    plan.over[1].values.push_back(rule.warmup);
  }
  return plan;
}

int64_t advice_epochs(int64_t epochs, double warmup_epochs, int64_t steps_per_epoch) {
  constexpr int64_t kLeast = 3;
  constexpr int64_t kUpdates = 60;
  const int64_t tenth = (epochs + 9) / 10;
  const auto past_warmup = static_cast<int64_t>(std::min(std::ceil(2 * warmup_epochs), static_cast<double>(epochs)));
  const int64_t updates = (kUpdates + steps_per_epoch - 1) / steps_per_epoch;
  return std::min(epochs, std::max({kLeast, tenth, past_warmup, updates}));
}

int64_t advice_warmup(int64_t epochs) { return std::clamp<int64_t>((epochs + 17) / 18, 1, 5); }

double RateAdvice::standard_error(const AdvisedRule& rule) const {
  return noise ? std::max(*noise, rule.loss.sd.value_or(0)) / std::sqrt(static_cast<double>(asked.seeds)) : 0;
}

double RateAdvice::cautious_loss(const AdvisedRule& rule) const { return *rule.loss.mean + standard_error(rule); }

bool RateAdvice::as_good(const AdvisedRule& rule) const {
  const double margin = 2 * noise.value_or(0) * std::sqrt(2 / static_cast<double>(asked.seeds));
  return rule.sound() && cautious_loss(rule) - cautious_loss(rules[*choice]) <= margin;
}

double RateAdvice::margin(const AdvisedRule& one, const AdvisedRule& other) const {
  return 2 * std::hypot(standard_error(one), standard_error(other));
}

RateAdvice rate_advice(const AdviceAsked& asked, const std::vector<AdviceRun>& runs) {
  RateAdvice advice{.asked = asked};
  for (const AdviceRun& run : runs)
    if (const std::optional<RateRule> rule = rule_of(run.series); rule && run.ranks > 1)
      rule_among(advice.rules, *rule, run.ranks);
  advice.baseline = judged({}, runs, asked.seeds);
  std::vector<const AdvisedRule*> all = {&advice.baseline};
  for (AdvisedRule& rule : advice.rules) {
    rule = judged(rule, runs, asked.seeds);
    all.push_back(&rule);
  }
  advice.noise = asked.seeds > 1 && advice.baseline.sound() ? noise_of(all) : std::nullopt;
  for (size_t i = 0; i < advice.rules.size() && advice.baseline.sound(); ++i) {
    const AdvisedRule& rule = advice.rules[i];
    if (!rule.sound()) continue;
    if (!advice.choice || advice.cautious_loss(rule) < advice.cautious_loss(advice.rules[*advice.choice]))
      advice.choice = i;
  }
  return advice;
}

}  // namespace dtrain
