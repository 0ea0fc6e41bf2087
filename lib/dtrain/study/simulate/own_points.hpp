#pragma once
#include <string>
#include <vector>

namespace dtrain {

/// The step of 8 logical ranks on 2 processes of one machine with two cores, as dtrain bench step measured it, and as
/// the model predicts it from what single processes took at that time. Medians of three rounds, in which all four were
/// measured in turn.
struct OwnPoint {
  std::string name;
  double step_s = 0;      ///< measured
  double from_one_s = 0;  ///< predicted from one process alone
  double from_two_s = 0;  ///< predicted from two that ran at the same time, and slowed each other down

  double error_from_one() const { return 100 * (from_one_s / step_s - 1); }  ///< percent of the step
  double error_from_two() const { return 100 * (from_two_s / step_s - 1); }
};
const std::vector<OwnPoint>& own_points();

/// Of the errors of all own_points(): the mean without signs, in percent.
struct OwnErrors {
  double from_one = 0;
  double from_two = 0;
};
OwnErrors own_errors();

}  // namespace dtrain
