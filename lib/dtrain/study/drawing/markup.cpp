#include "dtrain/study/drawing/markup.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  return out;
}

std::string coordinate(double value) {
  std::array<char, 400> digits{};
  const double tenths = std::round(value * 10) / 10;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), tenths == 0 ? 0.0 : tenths,
                                 std::chars_format::fixed, 1)
                       .ptr;
  const std::string_view text(digits.data(), static_cast<size_t>(end - digits.data()));
  return std::string(text.ends_with(".0") ? text.substr(0, text.size() - 2) : text);
}

namespace {

/// Of a character that begins with this byte, in font sizes.
double share_of_size(unsigned char first) {
  constexpr std::string_view kNarrow = " iljtf.,:;'|!I()[]/r-";
  constexpr std::string_view kWide = "mwMW@%";
  if (first >= 0x80) return first >= 0xE3 ? 1 : 0.7;  // from U+3000 on letters are as wide as they are high
  if (kNarrow.find(static_cast<char>(first)) != std::string_view::npos) return 0.4;
  if (kWide.find(static_cast<char>(first)) != std::string_view::npos) return 0.96;
  return first >= 'A' && first <= 'Z' ? 0.72 : 0.63;
}

}  // namespace

double text_width(std::string_view text) {
  double width = 0;
  for (size_t i = 0; i < text.size(); i += std::max<size_t>(1, utf8_length(text.substr(i))))
    width += share_of_size(static_cast<unsigned char>(text[i])) * kTextSize;
  return width;
}

std::string cut_to_width(std::string_view text, double width) {
  if (text_width(text) <= width) return std::string(text);
  std::vector<std::string_view> characters;
  for (size_t i = 0; i < text.size(); i += characters.back().size())
    characters.push_back(text.substr(i, std::max<size_t>(1, utf8_length(text.substr(i)))));
  const double room = width - kTextSize;  // of "…"
  size_t head = 0, tail = characters.size();
  double used = 0;
  while (head < tail && used + text_width(characters[head]) <= room / 3) used += text_width(characters[head++]);
  while (tail > head && used + text_width(characters[tail - 1]) <= room) used += text_width(characters[--tail]);
  std::string out;
  for (size_t i = 0; i < head; ++i) out += characters[i];
  out += "…";
  for (size_t i = tail; i < characters.size(); ++i) out += characters[i];
  return out;
}

}  // namespace dtrain
