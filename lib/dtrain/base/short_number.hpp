#pragma once
#include <string>

namespace dtrain {

/// A figure for people: `digits` after the point like fixed(), but like 1.9e33 from a million on, so that no number
/// fills a line.
std::string short_number(double value, int digits);

/// To four digits: 0.001 × 9 in doubles is not exactly 0.009.
std::string four_digits(double value);

}  // namespace dtrain
