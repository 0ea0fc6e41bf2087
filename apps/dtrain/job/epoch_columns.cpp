#include "job/epoch_columns.hpp"

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/metrics/options.hpp"

namespace dtrain {

void require_monitors(const Experiment& e, const Plan& plan) {
  EpochRow row;
  for (const std::string& column : figure_columns(e, plan)) row.figures.emplace_back(column, std::nullopt);
  monitored(row, e.checkpoint.best_monitor);
  if (e.schedule.decay.name == DecayName::plateau) {
    monitored(row, e.schedule.decay.monitor);
    if (e.schedule.decay.monitor.starts_with("valid.") && plan.split.valid.empty())
      throw ConfigError("schedule.decay plateau watches " + e.schedule.decay.monitor +
                        ", and no sample validates, so the rate would never fall; give data.split.valid, or watch "
                        "train.loss (schedule.decay.monitor)");
  }
  if (e.early_stop.patience == 0) return;
  monitored(row, e.early_stop.monitor);
  if (e.early_stop.monitor.starts_with("valid.") && plan.split.valid.empty())
    throw ConfigError("early_stop watches " + e.early_stop.monitor +
                      ", and no sample validates; give data.split.valid, or watch train.loss (early_stop.monitor)");
}

std::vector<std::string> figure_columns(const Experiment& e, const Plan& plan) {
  std::vector<std::string> columns = metric_columns(e.task, plan.outputs.size()).with(plan.outputs);
  if (e.ema.decay == 0) return columns;
  std::vector<std::string> averaged = {averaged_name("valid_loss")};
  for (const std::string& column : columns)
    if (column.starts_with("valid_")) averaged.push_back(averaged_name(column));
  columns.insert(columns.end(), averaged.begin(), averaged.end());
  return columns;
}

FigureList figures_of_epoch(const Experiment& e, const Plan& plan, const TrainingCounts& counts,
                            const Predictions& predictions, const Predictions& averaged) {
  std::vector<std::optional<double>> values;
  for (const Metric* metric : epoch_metrics())
    if (metric->use(e.task) != nullptr && metric->of_training != nullptr) values.push_back(metric->of_training(counts));
  const auto add = [&](const Predictions& judged) {
    for (const NamedValue& one : measure(e.task, plan.outputs, judged, std::nullopt, epoch_metrics()))
      values.push_back(one.measured.value);
  };
  add(predictions);
  if (e.ema.decay > 0) {
    values.push_back(plan.split.valid.empty() ? std::nullopt : std::optional(mean_loss(averaged)));
    add(averaged);
  }
  const std::vector<std::string> columns = figure_columns(e, plan);
  check(columns.size() == values.size(), "each column of a metric has a value");
  FigureList list;
  for (size_t i = 0; i < columns.size(); ++i) list.emplace_back(columns[i], values[i]);
  return list;
}

std::string shown_figures(const Experiment& e, const EpochRow& row) {
  std::string text;
  for (const Metric* metric : epoch_metrics()) {
    if (metric->use(e.task) == nullptr) continue;
    const std::optional<double> value = monitored(row, "valid." + metric->name);
    text += "  valid " + metric->name + " " + (value ? fixed(*value, metric->digits) : "undefined");
    if (e.ema.decay == 0) continue;
    const std::optional<double> averaged = monitored(row, averaged_name("valid." + metric->name));
    text += " (ema " + (averaged ? fixed(*averaged, metric->digits) : "undefined") + ")";
  }
  return text;
}

}  // namespace dtrain
