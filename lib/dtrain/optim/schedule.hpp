#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "dtrain/optim/options.hpp"

namespace dtrain {

/// The best value of a monitor, and for how long there was none better.
struct BestSoFar {
  double best = std::numeric_limits<double>::quiet_NaN();  ///< NaN: none yet
  int64_t bad_epochs = 0;                                  ///< since it last improved

  /// Closes an epoch with the monitor's value.
  void note(double value, bool larger_is_better, double min_delta = 0);
};

/// What a schedule remembers between epochs; part of every checkpoint. Only plateau uses it.
struct ScheduleState : BestSoFar {
  int64_t reductions = 0;  ///< how often the rate was multiplied by factor
};

/// The learning rate of each update: warmup from the base to the scaled rate (Goyal et al., "Accurate, large minibatch
/// SGD", 2017), then decay of the scaled rate: poly as in Chen et al., "DeepLab", 2017, cosine and its restarts as in
/// Loshchilov and Hutter, "SGDR", 2017. A pure function of the step and ScheduleState, so that ranks cannot
/// disagree and a resumed run continues exactly.
class Schedule {
 public:
  /// V = logical_ranks; steps_per_epoch counts full epochs of this run. Throws ConfigError: warmup in seconds, or
  /// longer than the run.
  Schedule(const ScheduleOptions& options, double base_rate, int64_t logical_ranks, int64_t steps_per_epoch,
           int64_t epochs);

  /// base × V, × √V, × V^(2/3) or × 1.
  double scaled_rate() const { return scaled_; }
  double base_rate() const { return base_; }

  /// Rate of the update after `steps_done` updates of the run. During warmup, with e = epochs done, parts included:
  /// lr(e) = base · (1 + e·(k − 1)/W), k the factor of scaled_rate(), W the warmup in epochs.
  double rate(int64_t steps_done) const;

  /// Closes an epoch: plateau checks the monitored value (nothing: undefined, not counted). Epochs that end within
  /// warmup do not count. Returns true when the rate was reduced.
  bool end_epoch(int64_t steps_done, std::optional<double> monitored);

  const ScheduleState& state() const { return state_; }
  /// Continues a run that has taken `steps_done` updates: as many as `steps_of_epochs` if all its epochs had had the
  /// steps that they have now. The two differ once V or the batch has been changed. Epochs then count as epochs, and
  /// durations in steps (of warmup, of decay) as updates.
  void resume(const ScheduleState& state, int64_t steps_done, int64_t steps_of_epochs) {
    state_ = state;
    shift_ = steps_of_epochs - steps_done;
  }

  /// Factor of the rule for V logical ranks.
  static double rank_factor(RankScaling rule, int64_t logical_ranks);

 private:
  double warmed(int64_t steps_done) const;
  double epochs_of(int64_t steps) const { return static_cast<double>(steps) / static_cast<double>(steps_per_epoch_); }
  double decayed(double epochs_done, int64_t steps_done) const;
  double part_way(double height) const;
  double share_done(double epochs_done) const;
  double share_of_period(int64_t steps_done) const;

  ScheduleOptions options_;
  double base_;
  double scaled_;
  int64_t steps_per_epoch_;
  int64_t total_steps_;
  double warmup_epochs_;
  int64_t shift_ = 0;  ///< steps done + shift: what they would be had V and the batch always been the present ones
  ScheduleState state_;
};

}  // namespace dtrain
