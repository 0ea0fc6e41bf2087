#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/study/drawing/palette.hpp"
#include "dtrain/study/report/sections.hpp"

namespace dtrain {
namespace {

std::vector<ChartPoint> by_epoch(const ReportedRun& run, const std::vector<double>& values) {
  std::vector<ChartPoint> points;
  for (size_t i = 0; i < std::min(run.epoch.size(), values.size()); ++i)
    points.push_back({.x = run.epoch[i], .y = values[i]});
  return points;
}

/// The first point with the best value; null without a value.
const ChartPoint* best_point(const std::vector<ChartPoint>& points, bool larger) {
  const ChartPoint* best = nullptr;
  for (const ChartPoint& point : points)
    if (std::isfinite(point.y) && (best == nullptr || (larger ? point.y > best->y : point.y < best->y))) best = &point;
  return best;
}

std::string in_epoch(const ChartPoint& point) { return tidy_figure(point.y) + " in epoch " + tidy_figure(point.x); }

Chart loss_chart(const ReportedRun& run) {
  Chart chart{.title = "Loss", .x = epoch_axis()};
  chart.layers = {{.name = "training", .ink = kind_ink(0), .points = by_epoch(run, run.train_loss)},
                  {.name = "validation", .ink = kind_ink(1), .points = by_epoch(run, run.valid_loss)}};
  chart.y = value_axis("loss", chart.layers);
  const ChartPoint* train = best_point(chart.layers[0].points, false);
  const ChartPoint* valid = best_point(chart.layers[1].points, false);
  if (valid != nullptr) chart.sentence = "Validation loss is lowest, " + in_epoch(*valid) + "; ";
  if (train != nullptr)
    chart.sentence += (valid ? "training loss is lowest, " : "Training loss is lowest, ") + in_epoch(*train) + ".";
  if (train == nullptr)
    chart.sentence = valid != nullptr ? "Validation loss is lowest, " + in_epoch(*valid) + "."
                                      : "Training and validation loss by epoch.";
  return chart;
}

Chart rate_chart(const ReportedRun& run) {
  Chart chart{.title = "Learning rate", .x = epoch_axis()};
  chart.layers = {{.name = "learning rate", .ink = kind_ink(5), .points = by_epoch(run, run.learning_rate)}};
  chart.y = value_axis("learning rate", chart.layers);
  if (chart.y.scale == Scale::linear) chart.y.least = 0;
  const ChartPoint* most = best_point(chart.layers[0].points, true);
  const ChartPoint* least = best_point(chart.layers[0].points, false);
  chart.sentence = most == nullptr ? "The learning rate by epoch."
                   : most->y == least->y
                       ? "The learning rate is " + tidy_figure(most->y) + " all the time."
                       : "The learning rate is at most " + in_epoch(*most) + " and at least " + in_epoch(*least) + ".";
  return chart;
}

/// Of "valid_auroc" the part of the data and the metric.
std::pair<std::string, std::string> parted(const std::string& column) {
  const size_t at = column.find('_');
  return at == std::string::npos ? std::pair<std::string, std::string>{"", column}
                                 : std::pair{column.substr(0, at), column.substr(at + 1)};
}

/// "valid_auroc_Mass" if there is a column valid_auroc and a class Mass.
bool is_of_one_class(const ReportedRun& run, const std::string& column) {
  return std::any_of(run.per_class.begin(), run.per_class.end(), [&](const ReportedValue& its) {
    return column.ends_with("_" + its.name) &&
           std::any_of(run.metrics.begin(), run.metrics.end(),
                       [&](const EpochColumn& stem) { return stem.name + "_" + its.name == column; });
  });
}

/// A chart for each metric, with its training and its validation column; those of single classes are not among them.
std::vector<Chart> metric_charts(const ReportedRun& run) {
  std::vector<Chart> charts;
  for (const EpochColumn& column : run.metrics) {
    const auto [part, metric] = parted(column.name);
    if (column.name != run.monitor.column && is_of_one_class(run, column.name)) continue;
    const std::string title = column_words(metric);
    auto at = std::find_if(charts.begin(), charts.end(), [&](const Chart& chart) { return chart.title == title; });
    if (at == charts.end()) {
      charts.push_back({.title = title, .x = epoch_axis()});
      at = charts.end() - 1;
    }
    const std::string name = part == "train" ? "training" : part == "valid" ? "validation" : part;
    at->layers.push_back({.name = name.empty() ? title : name,
                          .ink = kind_ink(part == "train"   ? 0
                                          : part == "valid" ? 1
                                                            : 2),
                          .points = by_epoch(run, column.values)});
    if (column.name == run.monitor.column) {
      const ChartPoint* best = best_point(at->layers.back().points, run.monitor.larger_is_better);
      if (best != nullptr)
        at->sentence = "Of validation the best value is " + in_epoch(*best) + "; it decides which weights are kept.";
    }
  }
  for (Chart& chart : charts) {
    chart.y = value_axis(chart.title, chart.layers);
    const ChartPoint* last = nullptr;
    for (const ChartPoint& point : chart.layers.back().points)
      if (std::isfinite(point.y)) last = &point;
    if (chart.sentence.empty())
      chart.sentence = last == nullptr
                           ? "By epoch."
                           : "The last value of " + chart.layers.back().name + " is " + in_epoch(*last) + ".";
  }
  return charts;
}

std::vector<std::pair<std::string, std::string>> headline(const ReportedRun& run) {
  std::vector<std::pair<std::string, std::string>> facts{{"State", run.state}};
  if (run.result.best)
    facts.emplace_back("Best " + column_words(run.monitor.column),
                       tidy_figure(*run.result.best) + " in epoch " + std::to_string(run.result.best_epoch));
  facts.emplace_back("Epochs", with_commas(static_cast<int64_t>(run.epoch.size())));
  if (run.result.elapsed_s) facts.emplace_back("Time", length_text(run.result.elapsed_s));
  if (run.result.images_per_s) facts.emplace_back("Images per second", tidy_figure(*run.result.images_per_s));
  std::string ranks = count_of(run.processes > 0 ? run.processes : run.ranks, "rank");
  if (run.nodes > 1) ranks += " on " + count_of(run.nodes, "node");
  if (run.logical_ranks > 0 && run.logical_ranks != run.processes)
    ranks += ", " + count_of(run.logical_ranks, "logical rank");
  facts.emplace_back("Ranks", ranks);
  if (!run.device.empty()) facts.emplace_back("Device", run.device);
  return facts;
}

void write_next_steps(PageWriter& page, const ReportedRun& run) {
  if (run.other_tool || run.epoch.empty()) return;
  const std::string folder = shell_word(run.folder);
  page.section("Next steps");
  if (!run.finished)
    page.command("dtrain --config " + shell_word(run.folder + "/config.yaml") + " --run-dir " + folder,
                 "goes on from the newest checkpoint, under mpirun with as many processes as you like");
  if (run.split.empty())
    page.command("dtrain eval --checkpoint " + folder, "metrics with intervals, and a table with every prediction");
  page.command("dtrain predict --checkpoint " + folder + " --input PICTURES --output predictions",
               "predicts pictures that nobody has labelled");
  page.command("dtrain compare " + folder + " OTHER_RUN", "what differs from another run, and whether it matters");
}

}  // namespace

void write_learning(PageWriter& page, const ReportedRun& run) {
  page.charts_begin();
  page.chart(loss_chart(run));
  for (const Chart& chart : metric_charts(run)) page.chart_if_any(chart);
  page.chart_if_any(rate_chart(run));
  page.charts_end();
}

void write_run(PageWriter& page, const ReportedRun& run) {
  page.section("Overview");
  page.facts(headline(run));
  page.sentences(run.sentences, "says");
  page.sentences(run.notes, "notes");
  page.section("Learning");
  write_learning(page, run);
  if (!run.values.empty() || !run.per_class.empty() || !run.counts.empty()) {
    page.section(run.split.empty() ? "Classes" : "Evaluation of " + run.split);
    write_evaluation(page, run);
  }
  if (!run.times.empty() || !run.rank_times.empty()) {
    page.section("Where the time went");
    write_times(page, run);
  }
  if (!run.manifest.empty()) {
    page.section("How it was run");
    page.pairs(run.manifest, "What run.json says");
  }
  write_next_steps(page, run);
}

}  // namespace dtrain
