#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dtrain/study/drawing/axis.hpp"

namespace dtrain {

/// A value at a place, with an interval or spread from `low` to `high` where it has one. What is not finite is missing.
struct ChartPoint {
  double x = 0;
  double y = 0;
  double low = kMissing;
  double high = kMissing;
};

enum class Stroke {
  line,          ///< intervals are a band; a point without neighbours is a dot
  dashes,        ///< likewise
  dotted_line,   ///< a line through dots, intervals are whiskers
  dots,          ///< intervals are whiskers
  stacked_bars,  ///< upon the bars of the layers before; all such layers have the same x
};

struct ChartLayer {
  std::string name = "";  ///< as its label and in the table; "" = it has neither
  std::string ink = "";   ///< kind_ink(), order_ink() or ideal_ink()
  Stroke stroke = Stroke::line;
  std::vector<ChartPoint> points = {};  ///< ascending by x
  bool second_axis = false;             ///< its dots are hollow
};

/// A vertical line with a word at its upper end, such as the first number of ranks that needs another node.
struct ChartMark {
  double x = 0;
  std::string text = "";
};

/// Points in a plane. Of layers with names each has its name at the end of its line, in its colour; where they do not
/// fit, with bars and with a second axis there is a legend instead. One layer alone needs no name beside it.
struct Chart {
  std::string title = "";
  std::string sentence = "";  ///< what it shows, in one sentence, for who does not see it
  Axis x = {};
  Axis y = {};
  std::optional<Axis> second = std::nullopt;  ///< on the right
  std::vector<ChartLayer> layers = {};        ///< the first are beneath the others
  std::vector<ChartMark> marks = {};
};

/// Whether anything would be drawn.
bool has_values(const Chart& chart);

/// The chart as an SVG element for a page with drawing_style(): 384 units wide, so that its text can be read from a
/// width of 328 pixels on. `id` must not occur twice on a page. A layer of more than 400 points is thinned(). Without a
/// value it says "no values yet".
std::string chart_svg(const Chart& chart, int id);

/// The same values as an HTML table: a row for each x and a column for each layer if most layers share their x values,
/// else a row for each point, of a layer of more than 60 points those of thinned().
std::string chart_table(const Chart& chart);

/// At most about `most` of the points, so that the drawn line is the same: of each of many equal parts of the layer
/// the first point and those with the least and the largest value, and one that is missing, if there is one.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, size_t most = 400);

}  // namespace dtrain
