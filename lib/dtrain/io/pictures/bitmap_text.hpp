#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// Red, green, blue, 0…255; a grey picture takes the first.
using Colour = std::array<uint8_t, 3>;

// Letters of 5 × 7 pixels and two below the line, printable ASCII. With the space around them:
inline constexpr int64_t kLetterWidth = 6;
inline constexpr int64_t kLineHeight = 11;

/// Each character that has no letter here, as a whole, becomes '?': one byte a letter.
std::string plain_text(const std::string& text);

/// Writes plain_text() into an 8-bit picture, from (y, x), the upper left corner of the first letter; a pixel of a
/// letter is scale × scale. What is outside the picture is left out.
void draw_text(Image& image, int64_t y, int64_t x, const std::string& text, const Colour& colour, int64_t scale = 1);

}  // namespace dtrain
