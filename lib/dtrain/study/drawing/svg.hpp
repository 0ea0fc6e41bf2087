#pragma once
#include <string>

#include "dtrain/study/drawing/chart.hpp"

// The words of a drawing, for chart_svg.cpp and row_chart.cpp; their classes are those of drawing_style().

namespace dtrain {

/// The whole element, an image with a name and a description.
std::string svg_element(const std::string& title, const std::string& sentence, int id, double width, double height,
                        const std::string& inside);
/// `classes`: "m" muted, "e" ends at x, "c" has its middle there, "t NAME" in that ink.
std::string svg_text(double x, double y, const std::string& classes, const std::string& text);
/// `title` is shown where the dot is pointed at; "" = none. Hollow: of the second axis.
std::string svg_dot(const std::string& ink, double x, double y, const std::string& title, bool hollow = false);
/// For a legend, 18 units wide, with its middle at y.
std::string svg_swatch(Stroke stroke, const std::string& ink, double x, double y, bool hollow = false);

}  // namespace dtrain
