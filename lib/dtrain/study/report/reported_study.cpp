#include "dtrain/study/report/reported_study.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/study/report/reported_run.hpp"
#include "dtrain/study/report/sentences.hpp"

namespace dtrain {
namespace {

using Runs = std::vector<ReportedRun>;
using Members = std::vector<size_t>;

ScalingRun scaling_run(const ReportedRun& run) {
  ScalingRun its{.series = run.series, .device = run.device, .nodes = run.nodes, .ranks = run.ranks};
  its.metric = run.result.best;
  if (!run.timed) return its;
  its.epochs_per_hour = run.result.epochs_per_hour;
  its.images_per_s = run.result.images_per_s;
  its.time_to_train_s = run.result.elapsed_s;
  return its;
}

/// A point of a curve while runs are added to it.
struct CurveSum {
  std::vector<double> values;
  double elapsed_s = 0;
  int64_t timed = 0;
};

template <class Values>
std::vector<BandPoint> curve_of(const Runs& runs, const Members& members, Values values_of) {
  std::map<double, CurveSum> epochs;
  for (const size_t member : members) {
    const ReportedRun& run = runs[member];
    const std::vector<double>* values = values_of(run);
    if (values == nullptr) continue;
    for (size_t i = 0; i < values->size(); ++i) {
      if (!std::isfinite((*values)[i])) continue;
      CurveSum& sum = epochs[run.epoch[i]];
      sum.values.push_back((*values)[i]);
      if (!run.timed || !std::isfinite(run.elapsed_s[i])) continue;
      sum.elapsed_s += run.elapsed_s[i];
      ++sum.timed;
    }
  }
  std::vector<BandPoint> curve;
  for (const auto& [epoch, sum] : epochs) {
    const Spread spread = spread_of(sum.values);
    const double elapsed =
        sum.timed > 0 ? sum.elapsed_s / static_cast<double>(sum.timed) : std::numeric_limits<double>::quiet_NaN();
    curve.push_back({epoch, elapsed, *spread.mean, *spread.least, *spread.most, spread.count});
  }
  return curve;
}

const std::vector<double>* metric_values(const ReportedRun& run) {
  if (run.monitor.column == "valid_loss") return &run.valid_loss;
  if (run.monitor.column == "train_loss") return &run.train_loss;
  for (const EpochColumn& column : run.metrics)
    if (column.name == run.monitor.column) return &column.values;
  return nullptr;
}

void take_point_curves(const Runs& runs, const Members& members, SeriesPoint& point) {
  point.train_loss = curve_of(runs, members, [](const ReportedRun& run) { return &run.train_loss; });
  point.valid_loss = curve_of(runs, members, [](const ReportedRun& run) { return &run.valid_loss; });
  point.metric = curve_of(runs, members, metric_values);
}

template <class Field>
Spread spread_over(const Runs& runs, const Members& members, Field field) {
  std::vector<double> values;
  for (const size_t i : members)
    if (const std::optional<double> value = field(runs[i]); value && runs[i].timed) values.push_back(*value);
  return spread_of(values);
}

void take_spreads(const Runs& runs, SeriesPoint& point) {
  point.epochs_per_hour = spread_over(runs, point.runs, [](const ReportedRun& r) { return r.result.epochs_per_hour; });
  point.images_per_s = spread_over(runs, point.runs, [](const ReportedRun& r) { return r.result.images_per_s; });
  point.time_to_train_s = spread_over(runs, point.runs, [](const ReportedRun& r) { return r.result.elapsed_s; });
}

// The mean over the runs of each part that all of them know.
std::vector<MeanTime> times_over(const Runs& runs, const Members& members) {
  std::vector<MeanTime> means;
  int64_t count = 0;
  for (const size_t i : members) {
    if (!runs[i].timed) continue;
    ++count;
    for (const MeanTime& part : runs[i].mean_times) {
      const auto same =
          std::find_if(means.begin(), means.end(), [&](const MeanTime& mean) { return mean.name == part.name; });
      if (same == means.end())
        means.push_back(part);
      else
        same->seconds += part.seconds;
    }
  }
  for (MeanTime& mean : means) mean.seconds /= static_cast<double>(count);
  return means;
}

SeriesPoint point_of(const Runs& runs, const Members& members) {
  SeriesPoint point;
  point.figures.series = runs[members.front()].series;
  point.figures.ranks = runs[members.front()].ranks;
  point.logical_ranks = runs[members.front()].logical_ranks;
  for (const size_t i : members) {
    if (runs[i].finished) point.runs.push_back(i);
    if (runs[i].logical_ranks != point.logical_ranks) point.logical_ranks = 0;
  }
  take_spreads(runs, point);
  point.times = times_over(runs, point.runs);
  take_point_curves(runs, members, point);
  return point;
}

void take_figures(const std::vector<ScalingRow>& rows, const ReportedSeries& series, SeriesPoint& point) {
  for (const ScalingRow& row : rows)
    if (row.series == series.name && row.ranks == point.figures.ranks) point.figures = row;
  point.figures.members = {};  // point.runs are those
  point.above_ideal = point.figures.above_ideal();
  if (point.figures.speedup) point.serial_fraction = serial_fraction(*point.figures.speedup, point.figures.ranks);
}

void relate_points(ReportedSeries& series) {
  const SeriesPoint& first = series.points.front();
  series.has_one_rank = first.figures.ranks == 1 && first.figures.epochs_per_hour.has_value();
  int64_t nodes = first.figures.nodes;
  std::map<int64_t, double> rates;
  for (SeriesPoint& point : series.points) {
    if (nodes > 0 && point.figures.nodes > nodes) series.node_borders.push_back(point.figures.ranks);
    nodes = std::max(nodes, point.figures.nodes);
    if (first.figures.ranks == 1 && first.figures.time_to_train_s && point.figures.time_to_train_s)
      point.speedup_of_total = *first.figures.time_to_train_s / *point.figures.time_to_train_s;
    if (const auto rate = point.figures.epochs_per_hour; rate && *rate > 0) rates[point.figures.ranks] = *rate;
  }
  const std::optional<int64_t> paying = ranks_that_pay(rates);
  if (paying && *paying != rates.rbegin()->first) series.pays_up_to = paying;
}

ReportedSeries series_of_runs(const Runs& runs, const Members& members, const std::vector<ScalingRow>& rows) {
  ReportedSeries series{.name = runs[members.front()].series, .monitor = runs[members.front()].monitor};
  std::map<int64_t, Members> by_ranks;
  for (const size_t i : members) {
    by_ranks[runs[i].ranks].push_back(i);
    if (runs[i].monitor.column != series.monitor.column) series.monitor.column.clear();
  }
  for (const auto& [ranks, its] : by_ranks) {
    series.points.push_back(point_of(runs, its));
    take_figures(rows, series, series.points.back());
    if (!series.monitor.column.empty()) continue;
    series.points.back().metric.clear();
    series.points.back().figures.metric = {};
  }
  relate_points(series);
  series.sentences = sentences_on(series, runs);
  return series;
}

}  // namespace

ReportedStudy reported_study(const std::string& name, const Runs& runs, const std::vector<std::string>& notes) {
  ReportedStudy study{.name = name, .series = {}, .sentences = {}, .notes = notes};
  std::vector<ScalingRun> finished;
  std::vector<Members> series;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].finished) finished.push_back(scaling_run(runs[i]));
    const auto same = std::find_if(series.begin(), series.end(), [&](const Members& members) {
      return runs[members.front()].series == runs[i].series;
    });
    (same == series.end() ? series.emplace_back() : *same).push_back(i);
  }
  const std::vector<ScalingRow> rows = scaling_rows(finished);
  for (const Members& members : series) study.series.push_back(series_of_runs(runs, members, rows));
  study.sentences = sentences_on(study);
  const auto waiting = static_cast<int64_t>(runs.size() - finished.size());
  const auto failed =
      std::count_if(runs.begin(), runs.end(), [](const ReportedRun& run) { return run.state.starts_with("failed"); });
  if (waiting > 0)
    study.notes.push_back(count_of(waiting, "run is", "runs are") + " not finished" +
                          (failed > 0 ? ", " + with_commas(failed) + " of them failed" : "") +
                          ": curves show what there is, figures are of finished runs");
  return study;
}

RateAdvice advice_of(const AdviceAsked& asked, const Runs& runs) {
  const std::string diverged = "failed (" + std::to_string(exit_code::kDiverged) + ")";
  std::vector<AdviceRun> all;
  for (const ReportedRun& run : runs) {
    AdviceRun& one = all.emplace_back();
    one.series = run.series;
    one.ranks = run.ranks;
    one.finished = run.finished;
    one.diverged = run.state == diverged;
    one.best = run.result.best;
    for (const double loss : run.valid_loss)
      if (std::isfinite(loss) && (!one.loss || loss < *one.loss)) one.loss = loss;
  }
  return rate_advice(asked, all);
}

std::vector<ScalingRow> rows_of(const ReportedStudy& study) {
  std::vector<ScalingRow> rows;
  for (const ReportedSeries& series : study.series)
    for (const SeriesPoint& point : series.points)
      if (!point.runs.empty()) rows.push_back(point.figures);
  return rows;
}

}  // namespace dtrain
