#include "dtrain/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

double Schedule::rank_factor(RankScaling rule, int64_t logical_ranks) {
  const auto v = static_cast<double>(logical_ranks);
  switch (rule) {
    case RankScaling::linear:
      return v;
    case RankScaling::sqrt:
      return std::sqrt(v);
    case RankScaling::two_thirds:
      return std::cbrt(v * v);
    case RankScaling::none:
      return 1;
  }
  return 1;
}

Schedule::Schedule(const ScheduleOptions& options, double base_rate, int64_t logical_ranks, int64_t steps_per_epoch,
                   int64_t epochs)
    : options_(options),
      base_(base_rate),
      scaled_(base_rate * rank_factor(options.scale_with_ranks, logical_ranks)),
      steps_per_epoch_(steps_per_epoch),
      total_steps_(steps_per_epoch * epochs) {
  if (options.warmup.unit == Duration::Unit::seconds)
    throw ConfigError(
        "schedule.warmup is given in seconds; give steps or epochs, which do not depend on the machine's speed");
  warmup_epochs_ = options.warmup.in_steps(steps_per_epoch) / static_cast<double>(steps_per_epoch);
  if (warmup_epochs_ > static_cast<double>(epochs))
    throw ConfigError("schedule.warmup lasts " + shortest(std::round(warmup_epochs_ * 100) / 100) +
                      " epochs, but the run has " + std::to_string(epochs) + "; shorten it or write none");
  const DecayOptions& decay = options.decay;
  const auto beyond = [&](const Duration& at) {
    return at.unit == Duration::Unit::steps && at.amount >= static_cast<double>(total_steps_);
  };
  const std::string but = ", but the run has " + count_of(total_steps_, "step") + ": ";
  if (decay.name == DecayName::step && beyond(decay.every))
    throw ConfigError("schedule.decay.every is " + decay.every.text() + but +
                      "the rate would never fall; shorten it or raise epochs");
  if (decay.name == DecayName::multistep && !decay.at.empty() && beyond(decay.at.back()))
    throw ConfigError("schedule.decay.at has a milestone at " + decay.at.back().text() + but +
                      "it would never be reached; leave out what lies beyond, or raise epochs");
}

double Schedule::rate(int64_t steps_done) const {
  const double w = warmed(steps_done);
  if (w < warmup_epochs_) return base_ * (1 + w * (scaled_ / base_ - 1) / warmup_epochs_);
  return decayed(epochs_of(steps_done + shift_), steps_done);
}

// How far warmup is, in epochs; all of it at warmup_epochs_.
double Schedule::warmed(int64_t steps_done) const {
  return epochs_of(options_.warmup.unit == Duration::Unit::steps ? steps_done : steps_done + shift_);
}

double Schedule::decayed(double e, int64_t steps_done) const {
  const DecayOptions& decay = options_.decay;
  const auto passed = [&](const Duration& at) {
    return at.unit == Duration::Unit::steps ? static_cast<double>(steps_done) >= at.amount : e >= at.amount;
  };
  switch (decay.name) {
    case DecayName::constant:
      return scaled_;
    case DecayName::step: {
      const double done = decay.every.unit == Duration::Unit::steps ? static_cast<double>(steps_done) : e;
      return scaled_ * std::pow(decay.factor, std::floor(done / decay.every.amount));
    }
    case DecayName::multistep:
      return scaled_ *
             std::pow(decay.factor, static_cast<double>(std::count_if(decay.at.begin(), decay.at.end(), passed)));
    case DecayName::cosine:
      return part_way(0.5 * (1 + std::cos(std::numbers::pi * share_done(e))));
    case DecayName::cosine_restarts:
      return part_way(0.5 * (1 + std::cos(std::numbers::pi * share_of_period(steps_done))));
    case DecayName::poly:
      return part_way(std::pow(1 - share_done(e), decay.power));
    case DecayName::plateau:
      return scaled_ * std::pow(decay.factor, static_cast<double>(state_.reductions));
  }
  return scaled_;
}

// From the scaled rate, at 1, to its share `final`, at 0.
double Schedule::part_way(double height) const {
  const double final = options_.decay.final;
  return scaled_ * (final + (1 - final) * height);
}

// Of the way from the end of warmup to the end of the run.
double Schedule::share_done(double e) const {
  const double total = epochs_of(total_steps_);
  return total > warmup_epochs_ ? std::clamp((e - warmup_epochs_) / (total - warmup_epochs_), 0.0, 1.0) : 1.0;
}

// Of the period between two restarts in which the next step lies.
double Schedule::share_of_period(int64_t steps_done) const {
  const Duration& every = options_.decay.every;
  const int64_t done = every.unit == Duration::Unit::steps ? steps_done : steps_done + shift_;
  double length = every.in_steps(steps_per_epoch_);
  double into = std::max(0.0, static_cast<double>(done) - options_.warmup.in_steps(steps_per_epoch_));
  while (into >= length) {
    into -= length;
    length *= options_.decay.stretch;
  }
  return into / length;
}

void BestSoFar::note(double value, bool larger_is_better, double min_delta) {
  const double gain = larger_is_better ? value - best : best - value;
  const bool better = std::isnan(best) || gain > min_delta;
  bad_epochs = better ? 0 : bad_epochs + 1;
  if (better) best = value;
}

bool Schedule::end_epoch(int64_t steps_done, std::optional<double> monitored) {
  if (options_.decay.name != DecayName::plateau || !monitored || !std::isfinite(*monitored)) return false;
  if (warmed(steps_done) <= warmup_epochs_) return false;
  state_.note(*monitored, options_.decay.monitor_is_max);
  if (state_.bad_epochs <= options_.decay.patience) return false;
  state_.bad_epochs = 0;
  ++state_.reductions;
  return true;
}

}  // namespace dtrain
