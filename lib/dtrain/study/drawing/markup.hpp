#pragma once
#include <string>
#include <string_view>

namespace dtrain {

/// `text` for HTML and SVG, as content or in a quoted attribute: one printable() line in which <, >, &, " and ' are
/// character references. So a name from a file can never become markup.
std::string escaped(std::string_view text);

/// A coordinate of a drawing: one digit after the point at most, the same bytes in every locale.
std::string coordinate(double value);

/// About how many units a line of text is wide at a font size of kTextSize, in the widest of the usual sans-serif
/// fonts.
constexpr double kTextSize = 13;
double text_width(std::string_view text);

/// `text`, with "…" in the place of its middle if it is wider than `width` units: names of one kind often differ at
/// their ends, as learning_rate=0.1 and learning_rate=0.01 do.
std::string cut_to_width(std::string_view text, double width);

}  // namespace dtrain
