#pragma once
#include <string>
#include <vector>

namespace dtrain {

/// A line of text at the end of a line of a chart.
struct Label {
  std::string text = "";
  std::string ink = "";
  double x = 0;  ///< where it begins
  double y = 0;  ///< of its middle; downwards, as in SVG
  double width = 0;
  double from_x = 0;  ///< the end of its line
  double from_y = 0;
};

/// Shifts labels up and down, as little as possible, until none covers another and all are between top and bottom:
/// middles of labels above each other are at least `gap` apart. False if there is not enough room; the labels are then
/// where they were.
bool spread_labels(std::vector<Label>& labels, double gap, double top, double bottom);

}  // namespace dtrain
