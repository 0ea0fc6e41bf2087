#include <algorithm>
#include <cmath>

#include "dtrain/base/text.hpp"
#include "dtrain/study/drawing/chart.hpp"
#include "dtrain/study/drawing/chart_frame.hpp"
#include "dtrain/study/drawing/markup.hpp"
#include "dtrain/study/drawing/svg.hpp"

namespace dtrain {
namespace {

constexpr size_t kMostWithTitles = 100;  // points of a layer that tell their values when they are pointed at

std::string pair_of(double x, double y) { return coordinate(x) + " " + coordinate(y); }

class ChartPainter {
 public:
  ChartPainter(const Chart& chart, const ChartFrame& frame) : chart_(chart), frame_(frame) {}

  std::string paint() const {
    std::string out = grid() + marks();
    for (const ChartLayer& layer : chart_.layers)
      if (layer.stroke == Stroke::line || layer.stroke == Stroke::dashes) out += band(layer);
    for (const ChartLayer& layer : chart_.layers) out += drawn(layer);
    return out + labels() + legend();
  }

 private:
  bool is_there(const ChartLayer& layer, const ChartPoint& point) const {
    return std::isfinite(at_x(point)) && std::isfinite(at_y(layer, point.y));
  }
  double at_x(const ChartPoint& point) const { return frame_.at_x(point.x); }
  double at_y(const ChartLayer& layer, double value) const { return frame_.at_y(value, layer.second_axis); }

  std::string grid() const;
  std::string marks() const;
  std::string band(const ChartLayer& layer) const;
  std::string line(const ChartLayer& layer) const;
  std::string dots(const ChartLayer& layer) const;
  std::string bars(const ChartLayer& layer) const;
  std::string drawn(const ChartLayer& layer) const;
  std::string labels() const;
  std::string legend() const;

  const Chart& chart_;
  const ChartFrame& frame_;
};

std::string ChartPainter::grid() const {
  std::string rules, out;
  for (size_t i = 0; i < frame_.y.at.size(); ++i) {
    const double y = frame_.at_y(frame_.y.at[i], false);
    rules += "M" + pair_of(frame_.left, y) + "H" + coordinate(frame_.right);
    out += svg_text(frame_.left - 5, y + 4.5, "m e", frame_.y.texts[i]);
  }
  if (chart_.second)
    for (size_t i = 0; i < frame_.second.at.size(); ++i)
      out += svg_text(frame_.right + 5, frame_.at_y(frame_.second.at[i], true) + 4.5, "m", frame_.second.texts[i]);
  for (size_t i = 0; i < frame_.x.at.size(); ++i) {
    const double x = frame_.at_x(frame_.x.at[i]);
    rules += "M" + pair_of(x, frame_.bottom) + "v4";
    if (!frame_.x.texts[i].empty()) out += svg_text(x, frame_.bottom + 17, "m c", frame_.x.texts[i]);
  }
  out += svg_text(frame_.right, frame_.bottom + 34, "m e", chart_.x.text());
  out += svg_text(0, 12, "m", cut_to_width(chart_.y.text(), chart_.second ? kChartWidth * 0.55 : kChartWidth));
  if (chart_.second) out += svg_text(kChartWidth, 12, "m e", cut_to_width(chart_.second->text(), kChartWidth * 0.42));
  return "<path class=\"g\" d=\"" + rules + "\"/>" + out;
}

std::string ChartPainter::marks() const {
  std::string lines, out;
  double end = -1e9;
  for (const ChartMark& mark : chart_.marks) {
    const double x = frame_.at_x(mark.x);
    if (!std::isfinite(x) || x < frame_.left || x > frame_.right) continue;
    lines += "M" + pair_of(x, frame_.top) + "V" + coordinate(frame_.bottom);
    const double width = text_width(mark.text);
    const double begin = std::min(x + 3, frame_.right - width);
    if (begin < end + 6) continue;
    out += svg_text(begin, frame_.top - 4, "m", mark.text);
    end = begin + width;
  }
  return lines.empty() ? "" : "<path class=\"n\" d=\"" + lines + "\"/>" + out;
}

std::string ChartPainter::band(const ChartLayer& layer) const {
  std::string shapes;
  for (size_t i = 0; i < layer.points.size(); ++i) {
    std::string upper, lower;
    size_t count = 0;
    for (; i < layer.points.size(); ++i, ++count) {
      const ChartPoint& point = layer.points[i];
      const double low = at_y(layer, point.low);
      const double high = at_y(layer, point.high);
      if (!is_there(layer, point) || !std::isfinite(low) || !std::isfinite(high)) break;
      upper += (count == 0 ? "M" : "L") + pair_of(at_x(point), high);
      lower = "L" + pair_of(at_x(point), low) + lower;
    }
    if (count > 1) shapes += upper + lower + "Z";
  }
  return shapes.empty() ? "" : "<path class=\"b " + layer.ink + "\" d=\"" + shapes + "\"/>";
}

/// A path that begins anew after each missing value; a value between two of them is a dot.
std::string ChartPainter::line(const ChartLayer& layer) const {
  std::string path, alone;
  for (size_t i = 0; i < layer.points.size(); ++i) {
    if (!is_there(layer, layer.points[i])) continue;
    const bool begins = i == 0 || !is_there(layer, layer.points[i - 1]);
    const bool ends = i + 1 == layer.points.size() || !is_there(layer, layer.points[i + 1]);
    const double x = at_x(layer.points[i]);
    const double y = at_y(layer, layer.points[i].y);
    if (begins && ends && layer.stroke != Stroke::dotted_line) {
      alone += svg_dot(layer.ink, x, y, "");
    } else {
      path += (begins ? "M" : "L") + pair_of(x, y);
    }
  }
  if (path.empty()) return alone;
  return "<path class=\"l " + std::string(layer.stroke == Stroke::dashes ? "h " : "") + layer.ink + "\" d=\"" + path +
         "\"/>" + alone;
}

std::string ChartPainter::dots(const ChartLayer& layer) const {
  std::string whiskers, out;
  for (const ChartPoint& point : layer.points) {
    if (!is_there(layer, point)) continue;
    const double x = at_x(point);
    const double low = at_y(layer, point.low);
    const double high = at_y(layer, point.high);
    const bool has_interval = std::isfinite(low) && std::isfinite(high);
    if (has_interval)
      whiskers += "M" + pair_of(x, low) + "V" + coordinate(high) + "M" + pair_of(x - 3, low) + "h6M" +
                  pair_of(x - 3, high) + "h6";
    std::string title;
    if (layer.points.size() <= kMostWithTitles)
      title = (layer.name.empty() ? "" : layer.name + ", ") + chart_.x.title + " " + tidy_figure(point.x) + ": " +
              tidy_figure(point.y) +
              (has_interval ? " (" + tidy_figure(point.low) + " to " + tidy_figure(point.high) + ")" : "");
    out += svg_dot(layer.ink, x, at_y(layer, point.y), title, layer.second_axis);
  }
  return (whiskers.empty() ? "" : "<path class=\"w " + layer.ink + "\" d=\"" + whiskers + "\"/>") + out;
}

std::string ChartPainter::bars(const ChartLayer& layer) const {
  std::string path;
  for (const ChartPoint& point : layer.points) {
    if (!is_there(layer, point)) continue;
    const double from = at_y(layer, point.low);
    const double to = at_y(layer, point.y);
    if (from - to < 0.05) continue;
    path += "M" + pair_of(at_x(point) - frame_.bar / 2, from) + "V" + coordinate(to) + "h" + coordinate(frame_.bar) +
            "V" + coordinate(from) + "Z";
  }
  return path.empty() ? "" : "<path class=\"s " + layer.ink + "\" d=\"" + path + "\"/>";
}

std::string ChartPainter::drawn(const ChartLayer& layer) const {
  switch (layer.stroke) {
    case Stroke::line:
    case Stroke::dashes:
      return line(layer);
    case Stroke::dotted_line:
      return line(layer) + dots(layer);
    case Stroke::dots:
      return dots(layer);
    case Stroke::stacked_bars:
      return bars(layer);
  }
  return "";
}

std::string ChartPainter::labels() const {
  std::string leaders, out;
  for (const Label& label : frame_.labels) {
    if (std::abs(label.y - label.from_y) > 4)
      leaders += "<path class=\"r " + label.ink + "\" d=\"M" + pair_of(label.from_x + 2, label.from_y) + "L" +
                 pair_of(std::max(label.x - 2, label.from_x + 3), label.y) + "\"/>";
    out += svg_text(label.x, label.y + 4.5, "t " + label.ink, label.text);
  }
  return leaders + out;
}

std::string ChartPainter::legend() const {
  std::string out;
  for (size_t row = 0; row < frame_.legend.size(); ++row) {
    double x = 0;
    const double y = 31 + 17 * static_cast<double>(row);
    for (const size_t i : frame_.legend[row]) {
      const ChartLayer& layer = chart_.layers[i];
      const std::string name = cut_to_width(layer.name, kLegendRoom);
      out += svg_swatch(layer.stroke, layer.ink, x, y - 4.5, layer.second_axis) + svg_text(x + 24, y, "", name);
      x += 24 + text_width(name) + 14;
    }
  }
  return out;
}

}  // namespace

std::string chart_svg(const Chart& chart, int id) {
  if (!has_values(chart))
    return svg_element(chart.title, chart.sentence, id, kChartWidth, 48, svg_text(0, 28, "m", "no values yet"));
  Chart drawn = chart;
  for (ChartLayer& layer : drawn.layers)
    if (layer.stroke != Stroke::stacked_bars) layer.points = thinned(layer.points);
  drawn.layers = stacked_up(drawn.layers);
  const ChartFrame frame = frame_of(drawn);
  return svg_element(chart.title, chart.sentence, id, kChartWidth, frame.height, ChartPainter(drawn, frame).paint());
}

}  // namespace dtrain
