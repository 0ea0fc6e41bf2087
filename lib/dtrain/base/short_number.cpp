#include "dtrain/base/short_number.hpp"

#include <array>
#include <cmath>
#include <cstdio>

#include "dtrain/base/text.hpp"

namespace dtrain {

std::string short_number(double value, int digits) {
  constexpr double kMillion = 1e6;
  if (!std::isfinite(value) || std::abs(value) < kMillion) return fixed(value, digits);
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.1e", value);
  std::string text = buffer.data();
  const size_t plus = text.find("e+");
  text.erase(plus + 1, text[plus + 2] == '0' ? 2 : 1);  // 1.9e+06 as 1.9e6
  return text;
}

std::string four_digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

}  // namespace dtrain
