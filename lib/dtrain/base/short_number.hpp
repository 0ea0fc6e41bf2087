#pragma once
#include <string>

namespace dtrain {

/// A figure for people: `digits` after the point like fixed(), but like 1.9e33 from a million on, so that no number
/// fills a line.
std::string short_number(double value, int digits);

}  // namespace dtrain
