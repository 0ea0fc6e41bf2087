#include <algorithm>
#include <cmath>
#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/study/drawing/palette.hpp"
#include "dtrain/study/report/sections.hpp"

namespace dtrain {
namespace {

constexpr int64_t kMostLinear = 16;  // up to here 1, 2, 4, 8 have room side by side on a linear axis

double value_or_missing(std::optional<double> value) { return value.value_or(kMissing); }

/// The study's numbers of ranks, and how they are drawn.
struct RankAxis {
  std::set<int64_t> ranks;
  explicit RankAxis(const ReportedStudy& study) {
    for (const ReportedSeries& series : study.series)
      for (const SeriesPoint& point : series.points) ranks.insert(point.figures.ranks);
  }
  bool is_linear() const { return ranks.empty() || *ranks.rbegin() <= kMostLinear; }
  double last() const { return ranks.empty() ? 1 : static_cast<double>(*ranks.rbegin()); }
  Axis x() const {
    return {.title = "ranks",
            .scale = is_linear() ? Scale::linear : Scale::log2,
            .whole = true,
            .round_ends = false,
            .least = 1,
            .at = std::vector<double>(ranks.begin(), ranks.end())};
  }
  /// For figures that grow or shrink in proportion to the ranks.
  Axis y(const std::string& title, const std::string& unit = "") const {
    if (is_linear()) return {.title = title, .unit = unit, .least = 0};
    return {.title = title, .unit = unit, .scale = Scale::log10};
  }
};

ChartPoint with_spread(double x, const Spread& spread, double unit = 1) {
  ChartPoint point{.x = x, .y = value_or_missing(spread.mean) / unit};
  if (spread.sd) {
    point.low = point.y - *spread.sd / unit;
    point.high = point.y + *spread.sd / unit;
  }
  return point;
}

/// A layer for each series, with the point that `value` makes of each of its points.
template <class Value>
std::vector<ChartLayer> over_ranks(const ReportedStudy& study, const Value& value, const std::string& of_one) {
  std::vector<ChartLayer> layers;
  for (size_t i = 0; i < study.series.size(); ++i) {
    ChartLayer layer{.name = study.series.size() == 1 ? of_one : study.series[i].name,
                     .ink = kind_ink(i),
                     .stroke = Stroke::dotted_line};
    for (const SeriesPoint& point : study.series[i].points) layer.points.push_back(value(point));
    layers.push_back(layer);
  }
  return layers;
}

double ranks_at(const SeriesPoint& point) { return static_cast<double>(point.figures.ranks); }

/// Between the last number of ranks on fewer nodes and the first on more.
std::vector<ChartMark> node_marks(const ReportedStudy& study, const RankAxis& axis) {
  std::vector<ChartMark> marks;
  std::set<int64_t> seen;
  for (const ReportedSeries& series : study.series)
    for (const int64_t first : series.node_borders) {
      double before = 0;
      int64_t nodes = 0;
      for (const SeriesPoint& point : series.points) {
        if (point.figures.ranks < first) before = ranks_at(point);
        if (point.figures.ranks == first) nodes = point.figures.nodes;
      }
      if (before <= 0 || !seen.insert(first).second) continue;
      const auto border = static_cast<double>(first);
      marks.push_back({.x = axis.is_linear() ? (before + border) / 2 : std::sqrt(before * border),
                       .text = nodes > 0 ? count_of(nodes, "node") : "next node"});
    }
  std::stable_sort(marks.begin(), marks.end(), [](const ChartMark& a, const ChartMark& b) { return a.x < b.x; });
  return marks;
}

/// "Most: 1,200 images/s with 8 ranks."; of several series the first three, each with its name.
template <class Text>
std::string best_text(const std::vector<ChartLayer>& layers, const std::string& word, bool larger, const Text& text) {
  std::vector<std::string> parts;
  for (const ChartLayer& layer : layers) {
    const ChartPoint* best = nullptr;
    for (const ChartPoint& point : layer.points)
      if (std::isfinite(point.y) && (best == nullptr || (larger ? point.y > best->y : point.y < best->y)))
        best = &point;
    if (best == nullptr) continue;
    parts.push_back((layers.size() > 1 ? layer.name + " " : "") + text(best->y) + " with " +
                    count_of(std::llround(best->x), "rank"));
  }
  if (parts.size() > 3) parts.resize(3);
  return parts.empty() ? "" : word + ": " + join(parts, "; ") + ".";
}

Chart rate_over_ranks(const ReportedStudy& study, const RankAxis& axis) {
  Chart chart{.title = "Images per second", .x = axis.x(), .y = axis.y("images/s")};
  chart.layers = over_ranks(
      study, [](const SeriesPoint& point) { return with_spread(ranks_at(point), point.images_per_s); }, "images/s");
  chart.marks = node_marks(study, axis);
  chart.sentence = best_text(chart.layers, "Most", true, [](double rate) { return tidy_figure(rate) + " images/s"; });
  return chart;
}

Chart time_over_ranks(const ReportedStudy& study, const RankAxis& axis) {
  double most = 0;
  for (const ReportedSeries& series : study.series)
    for (const SeriesPoint& point : series.points) most = std::max(most, point.time_to_train_s.mean.value_or(0));
  const TimeUnit unit = time_unit(most);
  Chart chart{.title = "Time to train", .x = axis.x(), .y = axis.y("time", unit.name)};
  chart.layers = over_ranks(
      study,
      [&](const SeriesPoint& point) { return with_spread(ranks_at(point), point.time_to_train_s, unit.seconds); },
      "time");
  chart.marks = node_marks(study, axis);
  chart.sentence =
      best_text(chart.layers, "Shortest", false, [&](double time) { return length_text(time * unit.seconds); });
  return chart;
}

/// Speed-up on the left, the metric on the right: what is gained, and what it costs.
Chart speedup_chart(const ReportedStudy& study, const RankAxis& axis) {
  Chart chart{.title = "Speed-up and quality", .x = axis.x(), .y = axis.y("speed-up")};
  if (!axis.is_linear()) chart.y.scale = Scale::log2;
  chart.layers.push_back({.name = "ideal", .ink = ideal_ink(), .stroke = Stroke::dashes});
  for (const int64_t ranks : axis.ranks)
    chart.layers[0].points.push_back({.x = static_cast<double>(ranks), .y = static_cast<double>(ranks)});
  const std::vector<ChartLayer> speedups = over_ranks(
      study,
      [](const SeriesPoint& point) {
        return ChartPoint{.x = ranks_at(point), .y = value_or_missing(point.figures.speedup)};
      },
      "speed-up");
  chart.layers.insert(chart.layers.end(), speedups.begin(), speedups.end());
  std::string metric;
  for (size_t i = 0; i < study.series.size(); ++i) {
    const ReportedSeries& series = study.series[i];
    if (series.monitor.column.empty() || (!metric.empty() && metric != series.monitor.column)) continue;
    metric = series.monitor.column;
    const std::string words = column_words(metric);
    ChartLayer layer{.name = (study.series.size() == 1 ? words : series.name) + " (right)",
                     .ink = kind_ink(study.series.size() == 1 ? 1 : i),
                     .stroke = Stroke::dots,
                     .second_axis = true};
    for (const SeriesPoint& point : series.points)
      layer.points.push_back(with_spread(ranks_at(point), point.figures.metric));
    chart.layers.push_back(layer);
  }
  if (!metric.empty()) chart.second = Axis{.title = column_words(metric)};
  chart.marks = node_marks(study, axis);
  chart.sentence = best_text(speedups, "Largest speed-up", true, [](double speedup) { return tidy_figure(speedup); });
  if (!metric.empty())
    chart.sentence += " Right: the best " + column_words(metric) + ", mean ± standard deviation of the runs.";
  return chart;
}

Chart efficiency_chart(const ReportedStudy& study, const RankAxis& axis) {
  Chart chart{.title = "Efficiency", .x = axis.x(), .y = {.title = "efficiency", .unit = "%", .least = 0, .most = 100}};
  chart.layers = over_ranks(
      study,
      [](const SeriesPoint& point) {
        return ChartPoint{.x = ranks_at(point), .y = 100 * value_or_missing(point.figures.efficiency)};
      },
      "efficiency");
  chart.layers.insert(chart.layers.begin(), {.name = "ideal",
                                             .ink = ideal_ink(),
                                             .stroke = Stroke::dashes,
                                             .points = {{.x = 1, .y = 100}, {.x = axis.last(), .y = 100}}});
  chart.marks = node_marks(study, axis);
  chart.sentence = "Epochs per hour at N ranks ÷ (N × epochs per hour at 1 rank), epochs after the first.";
  return chart;
}

Chart serial_chart(const ReportedStudy& study, const RankAxis& axis) {
  Chart chart{.title = "Serial fraction", .x = axis.x(), .y = {.title = "serial fraction", .unit = "%", .least = 0}};
  chart.layers = over_ranks(
      study,
      [](const SeriesPoint& point) {
        return ChartPoint{.x = ranks_at(point), .y = 100 * value_or_missing(point.serial_fraction)};
      },
      "serial fraction");
  for (ChartLayer& layer : chart.layers)
    std::erase_if(layer.points, [](const ChartPoint& point) { return !std::isfinite(point.y); });
  chart.sentence =
      "After Karp and Flatt: if it stays the same, some work is never shared; if it grows, so does the cost of working "
      "together.";
  return chart;
}

/// Points of one number of ranks beside each other: what a sweep over other keys asks.
RowChart quality_rows(const ReportedStudy& study) {
  RowChart chart{.title = "Quality", .rows_are = "series", .inks = {kind_ink(0)}};
  for (const ReportedSeries& series : study.series)
    for (const SeriesPoint& point : series.points) {
      const ChartPoint its = with_spread(0, point.figures.metric);
      chart.rows.push_back({.name = series.name, .values = {its.y}, .low = its.low, .high = its.high});
      if (chart.x.title.empty()) chart.x.title = "best " + column_words(series.monitor.column);
    }
  chart.sentence = "The best " + (chart.x.title.size() > 5 ? chart.x.title.substr(5) : "value") +
                   " of each series; lines: ± the standard deviation of its runs.";
  return chart;
}

RowChart rate_rows(const ReportedStudy& study) {
  RowChart chart{.title = "Images per second",
                 .sentence = "Mean of the runs, epochs after the first.",
                 .rows_are = "series",
                 .x = {.title = "images/s", .least = 0},
                 .parts = {"images/s"},
                 .inks = {kind_ink(2)}};
  for (const ReportedSeries& series : study.series)
    for (const SeriesPoint& point : series.points)
      chart.rows.push_back({.name = series.name, .values = {value_or_missing(point.images_per_s.mean)}});
  return chart;
}

}  // namespace

void write_scaling(PageWriter& page, const ReportedStudy& study) {
  const RankAxis axis(study);
  page.charts_begin();
  if (axis.ranks.size() > 1) {
    page.chart_if_any(rate_over_ranks(study, axis));
    page.chart_if_any(time_over_ranks(study, axis));
    const bool has_one = std::any_of(study.series.begin(), study.series.end(),
                                     [](const ReportedSeries& series) { return series.has_one_rank; });
    page.chart_if_any(speedup_chart(study, axis));
    if (has_one) {
      page.chart_if_any(efficiency_chart(study, axis));
      page.chart_if_any(serial_chart(study, axis));
    }
  } else if (study.series.size() > 1) {
    page.chart(quality_rows(study));
    page.chart(rate_rows(study));
  }
  page.charts_end();
}

}  // namespace dtrain
