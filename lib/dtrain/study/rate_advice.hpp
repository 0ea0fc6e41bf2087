#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/study/points.hpp"
#include "dtrain/study/scaling.hpp"

namespace dtrain {

// Which rule for the learning rate suits a number of logical ranks: short runs tell, on one machine.

/// How the rate grows with the ranks: values of schedule.scale_with_ranks and schedule.warmup, as YAML has them.
struct RateRule {
  std::string scale = "none";
  std::string warmup = "none";
  bool operator==(const RateRule&) const = default;

  /// "sqrt, warmup 2 epochs", "sqrt without warmup", "none".
  std::string text() const;
};

/// What the advice is about.
struct AdviceAsked {
  RateRule present = {};  ///< of the configuration
  int64_t epochs = 1;     ///< of each short run
  int64_t of_epochs = 1;  ///< of the configuration
  int64_t seeds = 1;      ///< runs of each rule
  bool operator==(const AdviceAsked&) const = default;
};

/// The points of the advice for V = `logical_ranks`, above 1: V = 1 with the base rate, then V with each rule, none,
/// sqrt, two_thirds and linear, the last three without and with `warmup`, and the present one if it is none of these.
SweepPlan advice_plan(int64_t logical_ranks, const RateRule& present, const std::string& warmup, int64_t repeat);

/// Epochs of the short runs where none are asked for: a tenth of the configuration's, at least 3, twice the warmup, and
/// as many as have 60 updates; never more than the configuration's. All above 0 but `warmup_epochs`, ≥ 0.
int64_t advice_epochs(int64_t epochs, double warmup_epochs, int64_t steps_per_epoch);

/// Epochs of the warmup that is tried where the configuration has none: 5 of 90 (Goyal et al., "Accurate, large
/// minibatch SGD", 2017) and as many in proportion, rounded up; never more than 5.
int64_t advice_warmup(int64_t epochs);

/// A short run, finished or not.
struct AdviceRun {
  std::string series = "";  ///< series_of() its point
  int64_t ranks = 1;
  bool finished = false;
  bool diverged = false;                      ///< it ended with 79
  std::optional<double> loss = std::nullopt;  ///< lowest validation loss over its epochs
  std::optional<double> best = std::nullopt;  ///< of the monitor
};

/// The runs of one rule at one V.
struct AdvisedRule {
  RateRule rule = {};
  int64_t ranks = 1;
  int64_t diverged = 0;  ///< of its runs; those have no part in `loss` and `best`
  Spread loss = {};
  Spread best = {};
  bool whole = false;  ///< every seed has run to its end, diverged or not
  /// Whether it can be judged by its loss: whole, and no run diverged.
  bool sound() const { return whole && diverged == 0 && loss.mean.has_value(); }
};

/// What the short runs say.
struct RateAdvice {
  AdviceAsked asked = {};
  AdvisedRule baseline = {};            ///< V = 1
  std::vector<AdvisedRule> rules = {};  ///< at V, in the order of the points
  /// Standard deviation of a run's loss between seeds, from the median of the rules' variances, so that an unstable
  /// rule does not widen it for the others; nothing of one seed.
  std::optional<double> noise = std::nullopt;
  /// Of the rules: that with the lowest cautious_loss(); of equal ones the first. Nothing if none is sound.
  std::optional<size_t> choice = std::nullopt;

  /// Of a rule's mean loss, from its own deviation or from `noise`, whichever is larger: the deviation of a few seeds
  /// may be small by chance. 0 of one seed.
  double standard_error(const AdvisedRule& rule) const;
  /// Its mean loss plus standard_error(), so that one lucky seed does not decide. The rule is sound.
  double cautious_loss(const AdvisedRule& rule) const;
  /// Mean losses that differ by less count as equal: two standard errors of the difference.
  double margin(const AdvisedRule& one, const AdvisedRule& other) const;
  /// Whether a rule is as good as the chosen one, as far as the seeds can tell: its cautious_loss() is not larger by
  /// more than two standard errors that `noise` alone gives, so that unsteady seeds make no rule good. There is a
  /// choice.
  bool as_good(const AdvisedRule& rule) const;
};

/// Judges the runs; those of series that are no rate rule do not count. Without a sound baseline there is no choice.
RateAdvice rate_advice(const AdviceAsked& asked, const std::vector<AdviceRun>& runs);

/// What to set, how it compares with V = 1, which rules are as good or diverged, and what short runs cannot tell.
std::vector<std::string> sentences_on(const RateAdvice& advice);

/// A row for each rule, V = 1 first: rule, V, runs, lowest validation loss with its spread, against V = 1, the best of
/// the monitor `column` with its spread. The first row are the headings.
std::vector<std::vector<std::string>> advice_table(const RateAdvice& advice, const std::string& column);

/// advice.yaml: a configuration to be given after the job's own, which sets the chosen rule and V; the sentences and
/// the table as comments. There is a choice.
std::string advice_yaml(const RateAdvice& advice, const std::string& column);

}  // namespace dtrain
