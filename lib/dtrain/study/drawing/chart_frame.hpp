#pragma once
#include <string>
#include <vector>

#include "dtrain/study/drawing/chart.hpp"
#include "dtrain/study/drawing/labels.hpp"

namespace dtrain {

constexpr double kChartWidth = 384;
constexpr double kLegendRoom = 330;  ///< of a name in a legend

/// Where the parts of a chart are, in units of the drawing. Of a chart whose layers are thinned() and stacked_up().
struct ChartFrame {
  Ticks x = {}, y = {}, second = {};
  double left = 0, right = 0, top = 0, bottom = 0, height = 0;  ///< of the plot; the drawing's height
  double inset = 0;                                             ///< from the plot's sides to the ends of the x axis
  double bar = 0;                                               ///< width of a bar
  std::vector<Label> labels = {};                               ///< at the ends of lines; empty with a legend
  std::vector<std::vector<size_t>> legend = {};                 ///< lines of layers

  double at_x(double value) const { return left + inset + x.share(value) * (right - left - 2 * inset); }
  double at_y(double value, bool on_second) const {
    return bottom - (on_second ? second : y).share(value) * (bottom - top);
  }
};

/// Precondition: has_values(chart).
ChartFrame frame_of(const Chart& chart);

/// Where stacked bars end: each is upon those of the layers before, and its low is where it begins. Other layers stay.
std::vector<ChartLayer> stacked_up(const std::vector<ChartLayer>& layers);

}  // namespace dtrain
