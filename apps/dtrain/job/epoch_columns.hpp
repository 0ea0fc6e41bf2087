#pragma once
#include <string>
#include <vector>

#include "dtrain/metrics/measure.hpp"
#include "dtrain/runlog/run_log.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// Throws ConfigError when checkpoint.best or a plateau watches a column that this run will not have.
void require_monitors(const Experiment& experiment, const Plan& plan);

/// Columns of epochs.csv after the fixed ones: those of the metrics, then of the averaged weights (`ema`).
std::vector<std::string> figure_columns(const Experiment& experiment, const Plan& plan);

/// An epoch's values for these columns: what training has counted, and the metrics of the validation part, undefined if
/// that is empty. `averaged`: predictions by the averaged weights, unused without `ema`.
FigureList figures_of_epoch(const Experiment& experiment, const Plan& plan, const TrainingCounts& counts,
                            const Predictions& predictions, const Predictions& averaged);

/// The validation part's values over all classes, as an epoch's line shows them: "  valid auroc 0.8123 (ema 0.8140)";
/// those of single classes are in epochs.csv.
std::string shown_figures(const Experiment& experiment, const EpochRow& row);

}  // namespace dtrain
