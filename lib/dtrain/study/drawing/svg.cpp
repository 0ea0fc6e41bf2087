#include "dtrain/study/drawing/svg.hpp"

#include "dtrain/study/drawing/markup.hpp"

namespace dtrain {

std::string svg_element(const std::string& title, const std::string& sentence, int id, double width, double height,
                        const std::string& inside) {
  const std::string name = "c" + std::to_string(id);
  return "<svg class=\"chart\" viewBox=\"0 0 " + coordinate(width) + " " + coordinate(height) +
         "\" role=\"img\" aria-labelledby=\"" + name + "t " + name + "d\"><title id=\"" + name + "t\">" +
         escaped(title) + "</title><desc id=\"" + name + "d\">" + escaped(sentence) + "</desc>" + inside + "</svg>";
}

std::string svg_text(double x, double y, const std::string& classes, const std::string& text) {
  return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\"" +
         (classes.empty() ? "" : " class=\"" + classes + "\"") + ">" + escaped(text) + "</text>";
}

std::string svg_dot(const std::string& ink, double x, double y, const std::string& title, bool hollow) {
  const std::string begin = "<circle class=\"" + std::string(hollow ? "q " : "d ") + ink + "\" cx=\"" + coordinate(x) +
                            "\" cy=\"" + coordinate(y) + "\" r=\"4\"";
  return title.empty() ? begin + "/>" : begin + "><title>" + escaped(title) + "</title></circle>";
}

std::string svg_swatch(Stroke stroke, const std::string& ink, double x, double y, bool hollow) {
  const std::string from = coordinate(x) + " " + coordinate(y);
  if (stroke == Stroke::stacked_bars)
    return "<path class=\"s " + ink + "\" d=\"M" + coordinate(x + 3) + " " + coordinate(y - 5) + "h12v10h-12Z\"/>";
  const std::string dot = svg_dot(ink, x + 9, y, "", hollow);
  if (stroke == Stroke::dots) return dot;
  const std::string line =
      "<path class=\"l " + std::string(stroke == Stroke::dashes ? "h " : "") + ink + "\" d=\"M" + from + "h18\"/>";
  return stroke == Stroke::dotted_line ? line + dot : line;
}

}  // namespace dtrain
