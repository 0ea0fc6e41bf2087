#include <algorithm>
#include <cmath>
#include <map>

#include "dtrain/study/drawing/chart.hpp"
#include "dtrain/study/drawing/table.hpp"

namespace dtrain {
namespace {

constexpr size_t kMostRows = 60;  // of a layer that has places of its own

std::string cell_of(const ChartPoint& point) {
  const std::string value = tidy_figure(point.y);
  if (!std::isfinite(point.low) || !std::isfinite(point.high)) return value;
  return value + " (" + tidy_figure(point.low) + " to " + tidy_figure(point.high) + ")";
}

std::string heading_of(const Chart& chart, const ChartLayer& layer) {
  const Axis& axis = layer.second_axis && chart.second ? *chart.second : chart.y;
  if (layer.name.empty()) return axis.text();
  return axis.unit.empty() ? layer.name : layer.name + " (" + axis.unit + ")";
}

/// A row for each x.
FigureTable side_by_side(const Chart& chart, const std::vector<ChartLayer>& layers) {
  FigureTable table{.headings = {chart.x.text()}};
  std::map<double, std::vector<std::string>> rows;
  for (size_t i = 0; i < layers.size(); ++i) {
    table.headings.push_back(heading_of(chart, layers[i]));
    for (const ChartPoint& point : layers[i].points) {
      if (!std::isfinite(point.x)) continue;
      auto& row = rows[point.x];
      row.resize(layers.size(), "–");
      row[i] = cell_of(point);
    }
  }
  for (const auto& [x, cells] : rows) {
    table.rows.push_back({tidy_figure(x)});
    table.rows.back().insert(table.rows.back().end(), cells.begin(), cells.end());
  }
  return table;
}

/// A row for each point.
FigureTable one_below_the_other(const Chart& chart, const std::vector<ChartLayer>& layers) {
  FigureTable table{.headings = {"", chart.x.text(), chart.y.text()}, .texts = {0}};
  for (const ChartLayer& layer : layers)
    for (const ChartPoint& point : thinned(layer.points, kMostRows))
      if (std::isfinite(point.x)) table.rows.push_back({layer.name, tidy_figure(point.x), cell_of(point)});
  return table;
}

}  // namespace

std::string chart_table(const Chart& chart) {
  std::vector<ChartLayer> layers;
  std::map<double, int> places;
  size_t longest = 0;
  for (const ChartLayer& layer : chart.layers) {
    if (layer.name.empty()) continue;
    layers.push_back(layer);
    if (layer.stroke != Stroke::stacked_bars) layers.back().points = thinned(layer.points);
    longest = std::max(longest, layers.back().points.size());
    for (const ChartPoint& point : layers.back().points) ++places[point.x];
  }
  const bool shared = places.size() <= longest + longest / 2 + 8;
  return figure_table(shared ? side_by_side(chart, layers) : one_below_the_other(chart, layers), chart.title);
}

std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, size_t most) {
  if (points.size() <= most) return points;
  const size_t parts = std::max<size_t>(1, most / 4);
  std::vector<size_t> kept{points.size() - 1};
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = part * points.size() / parts;
    const size_t end = (part + 1) * points.size() / parts;
    size_t least = begin, largest = begin, missing = end;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(points[i].y)) {
        missing = std::min(missing, i);
        continue;
      }
      if (!(points[i].y >= points[least].y)) least = i;
      if (!(points[i].y <= points[largest].y)) largest = i;
    }
    kept.insert(kept.end(), {begin, least, largest});
    if (missing < end) kept.push_back(missing);
  }
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  std::vector<ChartPoint> out;
  for (const size_t i : kept) out.push_back(points[i]);
  return out;
}

}  // namespace dtrain
