#pragma once
#include <string>
#include <vector>

#include "dtrain/study/drawing/axis.hpp"

namespace dtrain {

/// One thing with a name: a dot with its interval, or bars end to end.
struct ChartRow {
  std::string name = "";
  std::vector<double> values = {};  ///< a dot: one; bars: one for each part
  double low = kMissing;            ///< of the dot
  double high = kMissing;
  std::string note = "";    ///< right of it; "" = the figure of a dot, the sum of bars
  bool stands_out = false;  ///< its name is in bold
};

/// Things below each other, their values along one axis: AUROC of each class, images of each class, time of each rank.
struct RowChart {
  std::string title = "";
  std::string sentence = "";
  std::string rows_are = "";  ///< "class", "rank": heads their column in the table
  Axis x = {};
  std::vector<std::string> parts = {};  ///< names of the bars' parts; empty: dots
  std::vector<std::string> inks = {};   ///< one for each part, or one for dots
  std::vector<ChartRow> rows = {};
  std::vector<double> lines = {};  ///< vertical ones, such as the AUROC of guessing
};

/// As chart_svg().
std::string row_chart_svg(const RowChart& chart, int id);
std::string row_chart_table(const RowChart& chart);

}  // namespace dtrain
