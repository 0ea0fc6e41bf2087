#include "dtrain/study/scaling.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/base/text.hpp"
#include "dtrain/io/files/csv.hpp"

namespace dtrain {
namespace {

using Field = std::optional<double> RunResult::*;

// Nothing where one of the runs has no such value: the others' mean would stand for fewer runs than the row says.
std::optional<double> mean_of(const std::vector<const SweepRow*>& runs, Field field) {
  std::vector<double> values;
  for (const SweepRow* run : runs)
    if (run->timed() && run->result.*field) values.push_back(*(run->result.*field));
  return values.size() == runs.size() ? spread_of(values).mean : std::nullopt;
}

ScalingRow row_of(const std::string& series, const std::vector<const SweepRow*>& runs) {
  const SweepRow& first = *runs.front();
  ScalingRow row{.series = series,
                 .device = first.result.device,
                 .nodes = first.result.nodes,
                 .ranks = first.point.ranks,
                 .runs = static_cast<int64_t>(runs.size())};
  row.epochs_per_hour = mean_of(runs, &RunResult::epochs_per_hour);
  row.images_per_s = mean_of(runs, &RunResult::images_per_s);
  row.time_to_train_s = mean_of(runs, &RunResult::elapsed_s);
  std::vector<double> best;
  for (const SweepRow* run : runs)
    if (run->result.best) best.push_back(*run->result.best);
  row.metric = spread_of(best);
  return row;
}

std::string or_empty(const std::optional<double>& value) { return value ? shortest(*value) : ""; }

}  // namespace

Spread spread_of(const std::vector<double>& values) {
  Spread spread{.count = static_cast<int64_t>(values.size())};
  if (values.empty()) return spread;
  const auto n = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / n;
  spread.mean = mean;
  if (values.size() < 2) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  spread.sd = std::sqrt(squares / (n - 1));
  return spread;
}

std::vector<ScalingRow> scaling_rows(const SweepPlan& plan, const std::vector<SweepRow>& points,
                                     const std::string& study) {
  struct Group {
    const SweepPoint* point;
    std::vector<const SweepRow*> runs;
  };
  std::vector<Group> groups;
  for (const SweepRow& row : points) {
    if (row.state != PointState::done) continue;
    auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return group.point->ranks == row.point.ranks && group.point->values == row.point.values;
    });
    if (same == groups.end()) same = groups.insert(same, {&row.point, {}});
    same->runs.push_back(&row);
  }
  std::vector<ScalingRow> rows;
  for (const Group& group : groups) {
    const std::string series = series_of(plan, *group.point);
    rows.push_back(row_of(series.empty() ? study : series, group.runs));
  }
  for (ScalingRow& row : rows)
    for (const ScalingRow& one : rows) {
      if (one.series != row.series || one.ranks != 1 || !one.epochs_per_hour || !row.epochs_per_hour) continue;
      row.speedup = *row.epochs_per_hour / *one.epochs_per_hour;
      row.efficiency = *row.epochs_per_hour / (static_cast<double>(row.ranks) * *one.epochs_per_hour);
    }
  return rows;
}

std::string scaling_csv(const std::vector<ScalingRow>& rows) {
  std::string text =
      "series,device,nodes,ranks,runs,epochs_per_hour,images_per_s,time_to_train_s,speedup,efficiency,metric,"
      "metric_spread\n";
  for (const ScalingRow& row : rows)
    text += join({csv_field(row.series), csv_field(row.device), row.nodes > 0 ? std::to_string(row.nodes) : "",
                  std::to_string(row.ranks), std::to_string(row.runs), or_empty(row.epochs_per_hour),
                  or_empty(row.images_per_s), or_empty(row.time_to_train_s), or_empty(row.speedup),
                  or_empty(row.efficiency), or_empty(row.metric.mean), or_empty(row.metric.sd)},
                 ",") +
            "\n";
  return text;
}

}  // namespace dtrain
