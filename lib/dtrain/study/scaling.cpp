#include "dtrain/study/scaling.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/base/text.hpp"
#include "dtrain/io/files/csv.hpp"

namespace dtrain {
namespace {

using Field = std::optional<double> ScalingRun::*;

// Nothing where one of the runs has no such value: the others' mean would stand for fewer runs than the row says.
std::optional<double> mean_of(const std::vector<ScalingRun>& runs, const std::vector<size_t>& members, Field field) {
  std::vector<double> values;
  for (const size_t i : members)
    if (runs[i].*field) values.push_back(*(runs[i].*field));
  return values.size() == members.size() ? spread_of(values).mean : std::nullopt;
}

ScalingRow row_of(const std::vector<ScalingRun>& runs, const std::vector<size_t>& members) {
  const ScalingRun& first = runs[members.front()];
  ScalingRow row{.series = first.series,
                 .device = first.device,
                 .nodes = first.nodes,
                 .ranks = first.ranks,
                 .runs = static_cast<int64_t>(members.size()),
                 .members = members};
  row.epochs_per_hour = mean_of(runs, members, &ScalingRun::epochs_per_hour);
  row.images_per_s = mean_of(runs, members, &ScalingRun::images_per_s);
  row.time_to_train_s = mean_of(runs, members, &ScalingRun::time_to_train_s);
  std::vector<double> best;
  for (const size_t i : members)
    if (runs[i].metric) best.push_back(*runs[i].metric);
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
  spread.least = *std::min_element(values.begin(), values.end());
  spread.most = *std::max_element(values.begin(), values.end());
  if (values.size() < 2) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  spread.sd = std::sqrt(squares / (n - 1));
  return spread;
}

std::vector<ScalingRow> scaling_rows(const std::vector<ScalingRun>& runs) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const std::vector<size_t>& group) {
      return runs[group.front()].series == runs[i].series && runs[group.front()].ranks == runs[i].ranks;
    });
    (same == groups.end() ? groups.emplace_back() : *same).push_back(i);
  }
  std::vector<ScalingRow> rows;
  for (const std::vector<size_t>& group : groups) rows.push_back(row_of(runs, group));
  for (ScalingRow& row : rows)
    for (const ScalingRow& one : rows) {
      if (one.series != row.series || one.ranks != 1 || !one.epochs_per_hour || !row.epochs_per_hour) continue;
      row.speedup = *row.epochs_per_hour / *one.epochs_per_hour;
      row.efficiency = *row.epochs_per_hour / (static_cast<double>(row.ranks) * *one.epochs_per_hour);
    }
  return rows;
}

std::vector<ScalingRow> scaling_rows(const SweepPlan& plan, const std::vector<SweepRow>& points,
                                     const std::string& study) {
  std::vector<ScalingRun> runs;
  for (const SweepRow& row : points) {
    if (row.state != PointState::done) continue;
    const std::string series = series_of(plan, row.point);
    ScalingRun& run = runs.emplace_back();
    run.series = series.empty() ? study : series;
    run.device = row.result.device;
    run.nodes = row.result.nodes;
    run.ranks = row.point.ranks;
    run.metric = row.result.best;
    if (!row.timed()) continue;
    run.epochs_per_hour = row.result.epochs_per_hour;
    run.images_per_s = row.result.images_per_s;
    run.time_to_train_s = row.result.elapsed_s;
  }
  return scaling_rows(runs);
}

std::optional<double> serial_fraction(double speedup, int64_t ranks) {
  if (ranks < 2) return std::nullopt;
  const double share = 1 / static_cast<double>(ranks);
  return (1 / speedup - share) / (1 - share);
}

std::optional<int64_t> ranks_that_pay(const std::map<int64_t, double>& rates) {
  if (rates.size() < 2) return std::nullopt;
  const auto power = [](const auto& point) { return point.second * point.second / static_cast<double>(point.first); };
  return std::max_element(rates.begin(), rates.end(), [&](const auto& a, const auto& b) { return power(a) < power(b); })
      ->first;
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
