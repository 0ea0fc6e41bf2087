#pragma once
#include <string>

namespace dtrain {

/// A figure for people: `digits` after the point as fixed() has them, but from a million on 1.9e33, so that no number
/// fills a line.
std::string short_number(double value, int digits);

}  // namespace dtrain
