#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "dtrain/base/time.hpp"
#include "dtrain/config/config.hpp"
#include "job/job.hpp"
#include "line/command_line.hpp"

namespace dtrain {

/// What this start was asked for, and this process of its job. Every part of a training run refers to them; they
/// outlive it.
struct RunContext {
  const TrainCommand& command;
  const Config& config;
  const Experiment& experiment;  ///< that of `config`
  Job& job;
};

/// How long this start, and its run, have been going on.
class RunClock {
 public:
  /// The run's earlier starts took `seconds`.
  void go_on_from(double seconds) { earlier_s_ = seconds; }
  void step_took(double seconds) {
    ++steps_;
    epoch_step_s_.push_back(seconds);
    longest_step_s_ = std::max(longest_step_s_, seconds);
  }
  /// Of the run, over all its starts.
  double run_s() const { return earlier_s_ + start_.seconds(); }
  /// Of this start.
  int64_t steps() const { return steps_; }
  double longest_step_s() const { return longest_step_s_; }
  /// Of each step since this was last called: of the epoch that ends.
  std::vector<double> take_epoch_step_s() { return std::exchange(epoch_step_s_, {}); }
  /// The time of this start, building and evaluating included, per step; there must be at least one step.
  double seconds_a_step() const { return start_.seconds() / static_cast<double>(steps_); }

 private:
  Stopwatch start_;
  double earlier_s_ = 0;
  int64_t steps_ = 0;
  double longest_step_s_ = 0;
  std::vector<double> epoch_step_s_;
};

}  // namespace dtrain
