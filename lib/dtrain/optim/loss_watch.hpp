#pragma once
#include <cstdint>
#include <limits>
#include <optional>

namespace dtrain {

/// Distinguishes a run whose loss has run away from one that learns slowly. The mean loss over 100 steps, or over an
/// epoch if that is shorter, may be up to 1,000 times the larger of two: the first step's loss, and the loss of
/// predicting only the class frequencies (Loss::of_frequencies), which is about where an untrained network starts. A
/// loss above that is still finite, but no later step brings it back. The rule is this project's own, and so generous
/// that no useful run comes near it.
///
/// Plain values, part of a checkpoint. Equal on all ranks and for any number of processes, because the losses are.
struct LossWatch {
  static constexpr int64_t kMostSteps = 100;
  static constexpr double kFactor = 1000;

  double first = std::numeric_limits<double>::quiet_NaN();  ///< loss of the first step; NaN: none yet
  double sum = 0;                                           ///< of the losses since a mean was last checked
  int64_t steps = 0;                                        ///< how many these are, below kMostSteps

  /// After a step, with the mean loss of its samples, which is finite; a step without a finite loss is not counted.
  /// frequencies_loss: 0 if it is not known. steps_per_epoch: at least 1. Returns the mean if it is too large, else
  /// nothing.
  std::optional<double> note(double loss, double frequencies_loss, int64_t steps_per_epoch);
};

}  // namespace dtrain
