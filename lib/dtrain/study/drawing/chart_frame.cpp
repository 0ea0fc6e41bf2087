#include "dtrain/study/drawing/chart_frame.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "dtrain/study/drawing/markup.hpp"

namespace dtrain {
namespace {

constexpr double kLine = 17;  // from one line of text to the next
constexpr double kPlotHeight = 190;
constexpr double kLabelRoom = 112;
constexpr size_t kMostWithin = 3;  // labels that stand among the lines

struct Extent {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void take(double value, Scale scale) {
    if (!std::isfinite(value) || (scale != Scale::linear && value <= 0)) return;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool any() const { return least <= most; }
};

Extent extent_of_x(const Chart& chart) {
  Extent extent;
  for (const ChartLayer& layer : chart.layers)
    for (const ChartPoint& point : layer.points)
      if (std::isfinite(point.y)) extent.take(point.x, chart.x.scale);
  return extent;
}

Extent extent_of_y(const Chart& chart, const Axis& axis, bool on_second) {
  Extent extent;
  for (const ChartLayer& layer : chart.layers) {
    if (layer.second_axis != on_second) continue;
    for (const ChartPoint& point : layer.points)
      for (const double value : {point.y, point.low, point.high})
        if (std::isfinite(point.y)) extent.take(value, axis.scale);
  }
  return extent;
}

double widest(const std::vector<std::string>& texts) {
  double width = 0;
  for (const std::string& text : texts) width = std::max(width, text_width(text));
  return width;
}

bool has_bars(const Chart& chart) {
  return std::any_of(chart.layers.begin(), chart.layers.end(),
                     [](const ChartLayer& layer) { return layer.stroke == Stroke::stacked_bars; });
}

bool is_drawn(const ChartLayer& layer) {
  return std::any_of(layer.points.begin(), layer.points.end(),
                     [](const ChartPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); });
}

std::vector<size_t> named_layers(const Chart& chart) {
  std::vector<size_t> named;
  for (size_t i = 0; i < chart.layers.size(); ++i)
    if (!chart.layers[i].name.empty() && is_drawn(chart.layers[i])) named.push_back(i);
  return named;
}

/// Labels at the ends of lines, right of the plot or within it. False if they have no room.
bool place_labels(const Chart& chart, const std::vector<size_t>& named, ChartFrame& frame) {
  double beside = 0;  // the widest label of a line that ends in the last quarter
  for (const size_t i : named) {
    const ChartLayer& layer = chart.layers[i];
    const auto last = std::find_if(layer.points.rbegin(), layer.points.rend(), [&](const ChartPoint& point) {
      return std::isfinite(point.y) && std::isfinite(frame.x.share(point.x));
    });
    if (last == layer.points.rend()) continue;
    Label label{.text = layer.name, .ink = layer.ink, .x = last->x, .y = last->y};
    label.width = text_width(label.text);
    if (label.width > kLabelRoom) return false;
    if (frame.x.share(last->x) > 0.75) beside = std::max(beside, label.width);
    frame.labels.push_back(label);
  }
  frame.right = kChartWidth - beside - 10;
  size_t within = 0;
  for (Label& label : frame.labels) {
    label.from_x = frame.at_x(label.x);
    label.from_y = frame.at_y(label.y, false);
    if (!std::isfinite(label.from_y)) return false;
    const bool is_beside = frame.x.share(label.x) > 0.75;
    if (!is_beside && ++within > kMostWithin) return false;
    label.x = is_beside ? std::max(frame.right + 8, label.from_x + 8) : label.from_x + 8;
    label.x = std::min(label.x, kChartWidth - label.width);
    label.y = label.from_y;
  }
  const std::vector<Label> wished = frame.labels;
  if (!spread_labels(frame.labels, kLine - 2, frame.top + 4, frame.bottom - 6)) return false;
  for (size_t i = 0; i < wished.size(); ++i)
    if (std::abs(wished[i].y - frame.labels[i].y) > 3 * kLine) return false;
  return true;
}

void place_legend(const Chart& chart, const std::vector<size_t>& named, ChartFrame& frame) {
  double used = kChartWidth;
  for (const size_t i : named) {
    const double width = 24 + text_width(cut_to_width(chart.layers[i].name, kLegendRoom)) + 14;
    if (used + width > kChartWidth || frame.legend.empty()) {
      frame.legend.emplace_back();
      used = 0;
    }
    used += width;
    frame.legend.back().push_back(i);
  }
  // Below the lines of the legend the words of marks, which else have the place beside the axis' title.
  const double room = kLine * static_cast<double>(frame.legend.size()) + (chart.marks.empty() ? 0 : kLine);
  frame.top += room;
  frame.bottom += room;
  frame.height += room;
}

/// As wide as the nearest two bars allow.
double bar_width(const Chart& chart, const ChartFrame& frame) {
  double nearest = 1;
  for (const ChartLayer& layer : chart.layers)
    if (layer.stroke == Stroke::stacked_bars)
      for (size_t i = 1; i < layer.points.size(); ++i)
        nearest = std::min(nearest, frame.x.share(layer.points[i].x) - frame.x.share(layer.points[i - 1].x));
  const double spacing = nearest * (frame.right - frame.left) / (1 + nearest);
  return std::min(28.0, spacing > 4 ? spacing * 0.8 : spacing);
}

/// Ticks whose texts would touch the one before lose their text.
void drop_crowded_texts(ChartFrame& frame) {
  double end = -1e9;
  for (size_t i = 0; i < frame.x.at.size(); ++i) {
    const double half = text_width(frame.x.texts[i]) / 2;
    const double middle = frame.at_x(frame.x.at[i]);
    if (middle - half < end + 4) {
      frame.x.texts[i].clear();
    } else {
      end = middle + half;
    }
  }
}

}  // namespace

std::vector<ChartLayer> stacked_up(const std::vector<ChartLayer>& layers) {
  std::vector<ChartLayer> out = layers;
  std::map<double, double> tops;
  for (ChartLayer& layer : out) {
    if (layer.stroke != Stroke::stacked_bars) continue;
    for (ChartPoint& point : layer.points) {
      if (!std::isfinite(point.y)) continue;
      double& top = tops[point.x];
      point.low = top;
      point.y = top += point.y;
    }
  }
  return out;
}

bool has_values(const Chart& chart) {
  return extent_of_x(chart).any() &&
         (extent_of_y(chart, chart.y, false).any() || (chart.second && extent_of_y(chart, *chart.second, true).any()));
}

ChartFrame frame_of(const Chart& chart) {
  ChartFrame frame;
  const Extent x = extent_of_x(chart);
  const Extent y = extent_of_y(chart, chart.y, false);
  frame.x = ticks_of(chart.x, x.least, x.most, 5);
  frame.y = y.any() ? ticks_of(chart.y, y.least, y.most, 5) : Ticks{};
  frame.left = std::max(18.0, widest(frame.y.texts) + 7);
  frame.right = kChartWidth - 12;
  frame.top = 27;
  frame.bottom = frame.top + kPlotHeight;
  frame.height = frame.bottom + 2 * kLine + 6;
  if (chart.second) {
    const Extent second = extent_of_y(chart, *chart.second, true);
    if (second.any()) frame.second = ticks_of(*chart.second, second.least, second.most, 5);
    frame.right = kChartWidth - std::max(12.0, widest(frame.second.texts) + 7);
  }
  const std::vector<size_t> named = named_layers(chart);
  const bool bars = has_bars(chart);
  frame.inset = 6;
  if (named.size() > 1) {
    const bool direct = !bars && !chart.second && named.size() <= 10;
    if (!direct || !place_labels(chart, named, frame)) {
      frame.labels.clear();
      if (direct) frame.right = kChartWidth - 12;
      place_legend(chart, named, frame);
    }
  }
  if (bars) {
    frame.bar = bar_width(chart, frame);
    frame.inset = std::max(2.0, frame.bar / 2 + 2);
  }
  drop_crowded_texts(frame);
  return frame;
}

}  // namespace dtrain
