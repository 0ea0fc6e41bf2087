#pragma once
#include <optional>
#include <string>
#include <vector>

#include "commands/eval_network.hpp"
#include "dtrain/base/log.hpp"
#include "dtrain/checkpoint/fitted.hpp"
#include "line/command_line.hpp"

namespace dtrain {

/// What --calibrate and --threshold-from fit, beside what the weights file already holds.
struct EvalFit {
  Fitted fitted;        ///< what holds for the scores that are shown
  bool is_new = false;  ///< differs from what the file holds
  /// With a temperature: the mean log loss of the part without it and with it.
  std::optional<double> log_loss_before;
  std::optional<double> log_loss;
};

/// Throws UsageError where the network's task has nothing that --calibrate, --threshold-from or --masks could mean.
void require_options_for_task(const EvalCommand& command, Task task);

/// Warns where the command fits something on the test part, whose figures are then no longer those of unseen data.
void warn_of_fit_on_test(const EvalCommand& command, const Log& log);

/// Fits what the command asks for, and gives `shown`, the part that is evaluated, its probabilities and thresholds.
/// `chosen_on`: of the part that --threshold-from names, or null where that is `shown` or no part is named. On rank 0,
/// which alone needs the result.
EvalFit fit_and_apply(const EvalCommand& command, const EvalNetwork& network, const Fitted& stored, Predictions& shown,
                      Predictions* chosen_on, const Log& log);

/// Writes it into the file that was evaluated; where that cannot be done, a warning says why. `own_split`: it was
/// fitted on parts of the split that the network was trained with; `other_pictures`: how they were prepared otherwise,
/// "" if they were not. On other data or pictures it holds for this output alone, because the file's own figures would
/// no longer be what they were.
void keep_fit(const std::string& path, const SafetensorsFile& evaluated, const Fitted& fitted, bool own_split,
              const std::string& other_pictures, const Log& log);

/// What was fitted, for people, a line each: "temperature 1.371, fitted on valid …". `split`: the part that is shown.
std::vector<std::string> fit_lines(const EvalFit& fit, const std::string& split);

}  // namespace dtrain
