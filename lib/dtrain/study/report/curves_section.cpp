#include <algorithm>
#include <cmath>
#include <limits>

#include "dtrain/base/text.hpp"
#include "dtrain/study/drawing/palette.hpp"
#include "dtrain/study/report/sections.hpp"

namespace dtrain {
namespace {

constexpr size_t kMostCurves = 10;         // in one chart
constexpr size_t kMostGroups = 12;         // series with charts of their own
constexpr size_t kMostChartPoints = 3000;  // of a chart

struct NamedCurve {
  std::string name;
  std::string ink;
  const SeriesPoint* point;
};

/// What is drawn in one chart: the numbers of ranks of a series, or several series with one number each.
struct CurveGroup {
  std::string of = "";  ///< the series, if there are several
  std::vector<NamedCurve> curves = {};
  Monitor monitor = {};
  size_t left_out = 0;
};

/// Keeps the curves with the best metric.
void keep_best(CurveGroup& group) {
  if (group.curves.size() <= kMostCurves) return;
  group.left_out = group.curves.size() - kMostCurves;
  std::vector<NamedCurve> best = group.curves;
  std::stable_sort(best.begin(), best.end(), [&](const NamedCurve& a, const NamedCurve& b) {
    const auto x = a.point->figures.metric.mean, y = b.point->figures.metric.mean;
    return x && (!y || (group.monitor.larger_is_better ? *x > *y : *x < *y));
  });
  best.resize(kMostCurves);
  std::erase_if(group.curves, [&](const NamedCurve& curve) {
    return std::none_of(best.begin(), best.end(), [&](const NamedCurve& its) { return its.point == curve.point; });
  });
}

std::vector<CurveGroup> curve_groups(const ReportedStudy& study) {
  const bool by_ranks = std::any_of(study.series.begin(), study.series.end(),
                                    [](const ReportedSeries& series) { return series.points.size() > 1; });
  std::vector<CurveGroup> groups;
  for (const ReportedSeries& series : study.series) {
    if (by_ranks || groups.empty())
      groups.push_back({.of = by_ranks && study.series.size() > 1 ? series.name : "", .monitor = series.monitor});
    for (const SeriesPoint& point : series.points)
      groups.back().curves.push_back(
          {.name = by_ranks ? count_of(point.figures.ranks, "rank") : series.name, .ink = "", .point = &point});
  }
  for (CurveGroup& group : groups) {
    keep_best(group);
    for (size_t i = 0; i < group.curves.size(); ++i)
      group.curves[i].ink = by_ranks ? order_ink(i, group.curves.size()) : kind_ink(i);
  }
  return groups;
}

std::vector<ChartLayer> curve_layers(const CurveGroup& group, std::vector<BandPoint> SeriesPoint::*which, double unit) {
  std::vector<ChartLayer> layers;
  for (const NamedCurve& curve : group.curves) {
    ChartLayer layer{.name = curve.name, .ink = curve.ink};
    for (const BandPoint& point : curve.point->*which) {
      const double x = unit > 0 ? point.elapsed_s / unit : point.epoch;
      const bool has_band = point.runs > 1;
      if (std::isfinite(x))
        layer.points.push_back({.x = x,
                                .y = point.mean,
                                .low = has_band ? point.least : kMissing,
                                .high = has_band ? point.most : kMissing});
    }
    layer.points =
        thinned(layer.points, std::max<size_t>(40, kMostChartPoints / std::max<size_t>(1, group.curves.size())));
    if (!layer.points.empty()) layers.push_back(layer);
  }
  return layers;
}

/// "Lowest: 0.41, 4 ranks, in epoch 17. Bands …"
std::string curves_text(const Chart& chart, const CurveGroup& group, bool larger, std::optional<TimeUnit> time) {
  const ChartPoint* best = nullptr;
  std::string name;
  bool has_band = false;
  for (const ChartLayer& layer : chart.layers)
    for (const ChartPoint& point : layer.points) {
      has_band = has_band || std::isfinite(point.low);
      if (!std::isfinite(point.y) || (best != nullptr && !(larger ? point.y > best->y : point.y < best->y))) continue;
      best = &point;
      name = layer.name;
    }
  if (best == nullptr) return "No values yet.";
  std::string text = std::string(larger ? "Highest: " : "Lowest: ") + tidy_figure(best->y) + ", " + name + ", " +
                     (time ? "after " + length_text(best->x * time->seconds) : "in epoch " + tidy_figure(best->x)) +
                     ".";
  if (has_band) text += " Bands reach from the lowest to the highest of the runs.";
  if (group.left_out > 0)
    text += " Shown are the " + std::to_string(kMostCurves) + " best of " +
            std::to_string(kMostCurves + group.left_out) + ".";
  return text;
}

struct Curves {
  std::string title;
  std::string axis;
  std::vector<BandPoint> SeriesPoint::*which;
  bool larger = false;
};

/// Logarithmic where the first run ends long before the last one.
Axis time_axis(const TimeUnit& unit, const std::vector<ChartLayer>& layers) {
  constexpr double kFarApart = 8;
  double first = std::numeric_limits<double>::infinity(), last = 0, begin = first;
  for (const ChartLayer& layer : layers) {
    first = std::min(first, layer.points.back().x);
    last = std::max(last, layer.points.back().x);
    begin = std::min(begin, layer.points.front().x);
  }
  if (begin > 0 && last > kFarApart * first)
    return {.title = "elapsed time", .unit = unit.name, .scale = Scale::log10, .round_ends = false};
  return {.title = "elapsed time", .unit = unit.name, .round_ends = false, .least = 0};
}

void write_curve(PageWriter& page, const CurveGroup& group, const Curves& curves, bool by_time) {
  double most = 0;
  for (const NamedCurve& curve : group.curves)
    for (const BandPoint& point : curve.point->*curves.which)
      if (std::isfinite(point.elapsed_s)) most = std::max(most, point.elapsed_s);
  const TimeUnit unit = time_unit(most);
  Chart chart{.title = curves.title + (by_time ? " by elapsed time" : " by epoch") +
                       (group.of.empty() ? "" : ", " + group.of)};
  chart.layers = curve_layers(group, curves.which, by_time ? unit.seconds : 0);
  if (chart.layers.empty()) return;
  chart.x = by_time ? time_axis(unit, chart.layers) : epoch_axis();
  chart.y = value_axis(curves.axis, chart.layers);
  chart.sentence = curves_text(chart, group, curves.larger, by_time ? std::optional(unit) : std::nullopt);
  page.chart(chart);
}

}  // namespace

void write_curves(PageWriter& page, const ReportedStudy& study) {
  std::vector<CurveGroup> groups = curve_groups(study);
  if (groups.size() > kMostGroups) {
    page.paragraph("Charts of the first " + std::to_string(kMostGroups) + " of " + std::to_string(groups.size()) +
                   " series.");
    groups.resize(kMostGroups);
  }
  page.charts_begin();
  for (const CurveGroup& group : groups) {
    const Curves valid{"Validation loss", "loss", &SeriesPoint::valid_loss};
    const Curves train{"Training loss", "loss", &SeriesPoint::train_loss};
    const bool has_valid = std::any_of(group.curves.begin(), group.curves.end(),
                                       [](const NamedCurve& curve) { return !curve.point->valid_loss.empty(); });
    write_curve(page, group, has_valid ? valid : train, false);
    write_curve(page, group, has_valid ? valid : train, true);
    if (has_valid) write_curve(page, group, train, false);
    const std::string metric = column_words(group.monitor.column);
    if (!metric.empty() && metric != "valid loss" && metric != "train loss")
      write_curve(page, group, {metric, metric, &SeriesPoint::metric, group.monitor.larger_is_better}, false);
  }
  page.charts_end();
}

void write_shares(PageWriter& page, const ReportedStudy& study) {
  page.charts_begin();
  const std::vector<CurveGroup> groups = curve_groups(study);
  for (size_t g = 0; g < std::min(groups.size(), kMostGroups); ++g) {
    RowChart chart{.title = "Shares of a mean epoch" + (groups[g].of.empty() ? "" : ", " + groups[g].of),
                   .sentence = "Of epochs after the first; at the right how long one takes.",
                   .rows_are = "",
                   .x = {.title = "share", .unit = "%", .least = 0, .most = 100}};
    for (const NamedCurve& curve : groups[g].curves)
      for (const MeanTime& time : curve.point->times)
        if (std::find(chart.parts.begin(), chart.parts.end(), time.name) == chart.parts.end()) {
          chart.inks.push_back(part_ink(time.name, chart.parts.size()));
          chart.parts.push_back(time.name);
        }
    for (const NamedCurve& curve : groups[g].curves) {
      double all = 0;
      for (const MeanTime& time : curve.point->times) all += std::max(0.0, time.seconds);
      if (all <= 0) continue;
      ChartRow row{
          .name = curve.name, .values = std::vector<double>(chart.parts.size(), kMissing), .note = length_text(all)};
      for (const MeanTime& time : curve.point->times)
        row.values[static_cast<size_t>(std::find(chart.parts.begin(), chart.parts.end(), time.name) -
                                       chart.parts.begin())] = 100 * time.seconds / all;
      chart.rows.push_back(row);
    }
    if (chart.parts.size() > 1 && !chart.rows.empty()) page.chart(chart);
  }
  page.charts_end();
}

}  // namespace dtrain
