#include "dtrain/study/drawing/row_chart.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/base/text.hpp"
#include "dtrain/study/drawing/chart_frame.hpp"
#include "dtrain/study/drawing/markup.hpp"
#include "dtrain/study/drawing/svg.hpp"
#include "dtrain/study/drawing/table.hpp"

namespace dtrain {
namespace {

constexpr double kRow = 20;
constexpr double kNameRoom = 148;
constexpr double kNoteRoom = 96;

double row_sum(const ChartRow& row) {
  double sum = kMissing;
  for (const double value : row.values)
    if (std::isfinite(value)) sum = (std::isfinite(sum) ? sum : 0) + value;
  return sum;
}

std::string note_of(const ChartRow& row) { return row.note.empty() ? tidy_figure(row_sum(row)) : row.note; }

/// Where a row chart's parts are.
struct RowFrame {
  Ticks x = {};
  double left = 0, right = 0, top = 0, bottom = 0;
  std::vector<std::vector<size_t>> legend = {};

  double at_x(double value) const { return left + x.share(value) * (right - left); }
};

std::optional<RowFrame> row_frame(const RowChart& chart) {
  double least = std::numeric_limits<double>::infinity(), most = -least, names = 0, notes = 0;
  for (const ChartRow& row : chart.rows) {
    for (const double value : {row_sum(row), row.low, row.high})
      if (std::isfinite(value)) {
        least = std::min(least, value);
        most = std::max(most, value);
      }
    names = std::max(names, text_width(row.name));
    notes = std::max(notes, text_width(note_of(row)));
  }
  if (least > most) return std::nullopt;
  if (!chart.parts.empty()) least = std::min(least, 0.0);
  RowFrame frame{.x = ticks_of(chart.x, least, most, 3)};
  frame.left = std::min(names * (names > kNameRoom ? 1 : 1.06), kNameRoom) + 10;  // bold names are wider
  frame.right = kChartWidth - std::min(notes, kNoteRoom) - 12;
  double used = kChartWidth;
  for (size_t i = 0; chart.parts.size() > 1 && i < chart.parts.size(); ++i) {
    const double width = 24 + text_width(chart.parts[i]) + 14;
    if (used + width > kChartWidth) {
      frame.legend.emplace_back();
      used = 0;
    }
    used += width;
    frame.legend.back().push_back(i);
  }
  frame.top = 6 + 17 * static_cast<double>(frame.legend.size());
  frame.bottom = frame.top + kRow * static_cast<double>(chart.rows.size()) + 4;
  return frame;
}

std::string row_grid(const RowChart& chart, const RowFrame& frame) {
  std::string rules, out, lines;
  double end = -1e9;
  for (size_t i = 0; i < frame.x.at.size(); ++i) {
    const double x = frame.at_x(frame.x.at[i]);
    rules += "M" + coordinate(x) + " " + coordinate(frame.top) + "V" + coordinate(frame.bottom);
    const double half = text_width(frame.x.texts[i]) / 2;
    if (x - half < end + 5) continue;
    end = x + half;
    out += svg_text(x, frame.bottom + 16, "m c", frame.x.texts[i]);
  }
  for (const double value : chart.lines)
    if (value >= frame.x.low && value <= frame.x.high)
      lines += "M" + coordinate(frame.at_x(value)) + " " + coordinate(frame.top) + "V" + coordinate(frame.bottom);
  out += svg_text(kChartWidth, frame.bottom + 33, "m e", chart.x.text());
  return "<path class=\"g\" d=\"" + rules + "\"/>" + (lines.empty() ? "" : "<path class=\"n\" d=\"" + lines + "\"/>") +
         out;
}

std::string row_values(const RowChart& chart, const RowFrame& frame, const ChartRow& row, double y) {
  std::string out;
  if (chart.parts.empty()) {
    const double value = row_sum(row);
    if (!std::isfinite(value)) return "";
    if (std::isfinite(row.low) && std::isfinite(row.high)) {
      const double low = frame.at_x(row.low);
      out += "<path class=\"w " + chart.inks.at(0) + "\" d=\"M" + coordinate(low) + " " + coordinate(y) + "H" +
             coordinate(frame.at_x(row.high)) + "\"/>";
    }
    return out + svg_dot(chart.inks.at(0), frame.at_x(value), y, "");
  }
  double from = 0;
  for (size_t i = 0; i < row.values.size(); ++i) {
    if (!std::isfinite(row.values[i]) || row.values[i] <= 0) continue;
    const double begin = frame.at_x(from);
    const double end = frame.at_x(from += row.values[i]);
    out += "<path class=\"s " + chart.inks.at(i) + "\" d=\"M" + coordinate(begin) + " " + coordinate(y - 7) + "h" +
           coordinate(end - begin) + "v14h" + coordinate(begin - end) + "Z\"/>";
  }
  return out;
}

}  // namespace

std::string row_chart_svg(const RowChart& chart, int id) {
  const std::optional<RowFrame> frame = row_frame(chart);
  if (!frame)
    return svg_element(chart.title, chart.sentence, id, kChartWidth, 48, svg_text(0, 28, "m", "no values yet"));
  std::string out = row_grid(chart, *frame);
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const ChartRow& row = chart.rows[i];
    const double y = frame->top + 2 + kRow * (static_cast<double>(i) + 0.5);
    out += svg_text(frame->left - 8, y + 4.5, row.stands_out ? "e o" : "e", cut_to_width(row.name, kNameRoom));
    out += row_values(chart, *frame, row, y);
    out += svg_text(kChartWidth, y + 4.5, "m e", cut_to_width(note_of(row), kNoteRoom));
  }
  for (size_t line = 0; line < frame->legend.size(); ++line) {
    double x = 0;
    for (const size_t i : frame->legend[line]) {
      const double y = 12 + 17 * static_cast<double>(line);
      out += svg_swatch(Stroke::stacked_bars, chart.inks.at(i), x, y - 4.5) + svg_text(x + 24, y, "", chart.parts[i]);
      x += 24 + text_width(chart.parts[i]) + 14;
    }
  }
  return svg_element(chart.title, chart.sentence, id, kChartWidth, frame->bottom + 38, out);
}

std::string row_chart_table(const RowChart& chart) {
  FigureTable table{.headings = {chart.rows_are}, .texts = {0}};
  const std::string unit = chart.x.unit.empty() ? "" : " (" + chart.x.unit + ")";
  if (chart.parts.empty()) {
    table.headings.insert(table.headings.end(), {chart.x.text(), "from", "to"});
  } else {
    for (const std::string& part : chart.parts) table.headings.push_back(part + unit);
  }
  for (const ChartRow& row : chart.rows) {
    std::vector<std::string> cells{row.name};
    for (const double value : row.values) cells.push_back(tidy_figure(value));
    if (chart.parts.empty()) cells.insert(cells.end(), {tidy_figure(row.low), tidy_figure(row.high)});
    cells.resize(table.headings.size(), "–");
    table.rows.push_back(cells);
  }
  return figure_table(table, chart.title);
}

}  // namespace dtrain
