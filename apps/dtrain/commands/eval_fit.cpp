#include "commands/eval_fit.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/short_number.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/metrics/temperature.hpp"
#include "dtrain/runlog/run_lock.hpp"

namespace dtrain {

void require_options_for_task(const EvalCommand& command, Task task) {
  if (command.calibrate && task == Task::segmentation)
    throw UsageError("--calibrate fits the probabilities of labels and classes, and " + command.checkpoint +
                     " predicts masks");
  if (command.masks && task != Task::segmentation)
    throw UsageError("--masks is for networks that predict masks, and " + command.checkpoint + " predicts none");
  if (command.threshold_from && task != Task::multilabel)
    throw UsageError("--threshold-from is for labels, which are called one by one; " + command.checkpoint +
                     (task == Task::multiclass ? " predicts one class of several, the most probable one"
                                               : " predicts masks, whose threshold is ½"));
}

static Fitted newly_fitted(const EvalCommand& command, Fitted fitted, const Predictions& shown, const Log& log) {
  if (!command.calibrate) return fitted;
  const std::optional<double> before = fitted.temperature;
  fitted.temperature = fitted_temperature(shown);
  fitted.temperature_from = fitted.temperature ? command.split : "";
  if (!fitted.temperature)
    log.warning("no temperature fits the " + command.split +
                " part: all of its labels are on the right side, or its scores say nothing about them; the scores stay "
                "as the network gives them");
  if (!command.threshold_from && !fitted.thresholds.empty() && fitted.temperature != before) {
    log.warning("the thresholds chosen by " + fitted.thresholds_from +
                " were for other probabilities and are dropped; choose them again with --threshold-from");
    fitted.thresholds.clear();
    fitted.thresholds_from.clear();
  }
  return fitted;
}

static void choose_thresholds(const ThresholdFrom& from, const Predictions& part, Fitted& fitted) {
  fitted.thresholds.clear();
  fitted.thresholds_from = from.text;
  for (size_t k = 0; k < part.outputs; ++k) fitted.thresholds.push_back(threshold_by(from.rule, curve_of(part, k)));
}

void warn_of_fit_on_test(const EvalCommand& command, const Log& log) {
  std::vector<std::string> options;
  if (command.calibrate && command.split == "test") options.emplace_back("--calibrate");
  if (command.threshold_from && command.threshold_from->part == "test") options.emplace_back("--threshold-from");
  if (options.empty()) return;
  log.warning(join(options, " and ") + (options.size() == 1 ? " fits" : " fit") +
              " to the test part, so figures of the test part are no longer those of data that nothing was fitted to; "
              "fit to the validation part");
}

EvalFit fit_and_apply(const EvalCommand& command, const EvalNetwork& network, const Fitted& stored, Predictions& shown,
                      Predictions* chosen_on, const Log& log) {
  EvalFit fit{newly_fitted(command, stored, shown, log), false, {}, {}};
  if (const auto& temperature = fit.fitted.temperature) {
    fit.log_loss_before = mean_log_loss(shown, 1);
    fit.log_loss = mean_log_loss(shown, *temperature);
    network.apply_temperature(shown, *temperature);
    if (chosen_on != nullptr) network.apply_temperature(*chosen_on, *temperature);
  }
  if (command.threshold_from)
    choose_thresholds(*command.threshold_from, chosen_on == nullptr ? shown : *chosen_on, fit.fitted);
  for (const auto& threshold : fit.fitted.thresholds) shown.thresholds.push_back(threshold.value_or(0.5));
  fit.is_new = fit.fitted != stored;
  return fit;
}

void keep_fit(const std::string& path, const SafetensorsFile& evaluated, const Fitted& fitted, bool own_split,
              const std::string& other_pictures, const Log& log) {
  try {
    if (!own_split) throw DataError("it was not fitted to the split that " + path + " was trained with");
    if (!other_pictures.empty()) throw DataError(other_pictures);
    std::error_code unread;
    const bool link = std::filesystem::is_symlink(path, unread);  // which stays one
    const std::string file = link ? std::filesystem::canonical(path, unread).string() : path;
    if (unread) throw_errno("find", path, unread.value());
    const std::string folder = std::filesystem::absolute(file).lexically_normal().parent_path().string();
    std::optional<RunLock> lock;  // a job that trains there may be about to write the same file
    if (is_file(folder + "/run.json"))
      lock.emplace(folder, "process " + std::to_string(getpid()) + " on " + host_name(), [](double) { return false; });
    write_fitted(file, evaluated, fitted);
    log.info("what was fitted is kept in " + file + " and holds from now on");
  } catch (const Error& error) {
    log.warning("what was fitted holds for this output alone, because it cannot be kept in the weights file: " +
                std::string(error.what()));
  }
}

std::vector<std::string> fit_lines(const EvalFit& fit, const std::string& split) {
  std::vector<std::string> lines;
  const Fitted& fitted = fit.fitted;
  const auto seen = [&](const std::string& part) { return part == split ? ", the same part" : ""; };
  if (fitted.temperature)
    lines.push_back("temperature " + short_number(*fitted.temperature, 4) + ", fitted on " +
                    printable(fitted.temperature_from) + seen(fitted.temperature_from) + ": log loss " +
                    short_number(*fit.log_loss, 4) + ", without it " + short_number(*fit.log_loss_before, 4));
  if (!fitted.thresholds.empty()) {
    const auto without = std::count(fitted.thresholds.begin(), fitted.thresholds.end(), std::nullopt);
    const std::string part = fitted.thresholds_from.substr(0, fitted.thresholds_from.find(':'));
    lines.push_back("thresholds chosen by " + printable(fitted.thresholds_from) + seen(part) +
                    (without == 0 ? ""
                                  : "; " + count_of(without, "output") +
                                        " could not be chosen for, and 0.5 holds: no positive or no negative label"));
  }
  return lines;
}

}  // namespace dtrain
