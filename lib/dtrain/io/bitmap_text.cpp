#include "dtrain/io/bitmap_text.hpp"

#include <algorithm>
#include <array>

#include "dtrain/base/text.hpp"
#include "dtrain/io/codecs.hpp"

namespace dtrain {

// From ' ' to '~': seven rows of five pixels each, the first row in the highest bits, the leftmost pixel in a row's.
static constexpr std::array<uint64_t, 95> kGlyphs = {
    0x000000000, 0x108421004, 0x294A00000, 0x295F57D4A, 0x11F4717C4, 0x632222263, 0x32544564D, 0x108800000, 0x088842082,
    0x208210888, 0x009575480, 0x0084F9080, 0x000003088, 0x0000F8000, 0x00000018C, 0x002222200, 0x3A33AE62E, 0x11842108E,
    0x3A211111F, 0x7C441062E, 0x08CA97C42, 0x7E1E0862E, 0x1910F462E, 0x7C2222108, 0x3A317462E, 0x3A317844C, 0x018C03180,
    0x018C03088, 0x088882082, 0x001F07C00, 0x208208888, 0x3A2111004, 0x3A216D6AE, 0x3A318FE31, 0x7A31F463E, 0x3A308422E,
    0x72518C65C, 0x7E10F421F, 0x7E10F4210, 0x3A30BC62F, 0x4631FC631, 0x38842108E, 0x1C4210A4C, 0x4654C5251, 0x42108421F,
    0x4775AC631, 0x4639ACE31, 0x3A318C62E, 0x7A31F4210, 0x3A318D64D, 0x7A31F5251, 0x3E107043E, 0x7C8421084, 0x46318C62E,
    0x46318C544, 0x4631AD6AA, 0x462A22A31, 0x463151084, 0x7C222221F, 0x39084210E, 0x020820820, 0x38421084E, 0x115100000,
    0x00000001F, 0x208200000, 0x000E0BE2F, 0x4216CC63E, 0x000E8422E, 0x042D9C62F, 0x000E8FE0E, 0x1928E2108, 0x01F18BC2E,
    0x4216CC631, 0x100C2108E, 0x080610A4C, 0x4212A6292, 0x30842108E, 0x001AAD631, 0x0016CC631, 0x000E8C62E, 0x001E8FA10,
    0x000D9BC21, 0x0016CC210, 0x000E8383E, 0x211C42126, 0x00118C66D, 0x00118C544, 0x00118D6AA, 0x001151151, 0x00118BC2E,
    0x001F1111F, 0x088441082, 0x108421084, 0x208411088, 0x0008A8800};

static uint64_t glyph_of(char letter) {
  const bool known = letter >= ' ' && letter <= '~';
  return kGlyphs[static_cast<size_t>((known ? letter : '?') - ' ')];
}

std::string plain_text(const std::string& text) {
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(1, utf8_length(std::string_view(text).substr(at)));
    plain += length == 1 && text[at] >= ' ' && text[at] <= '~' ? text[at] : '?';
    at += length;
  }
  return plain;
}

void draw_text(Image& image, int64_t y, int64_t x, const std::string& text, const Colour& colour, int64_t scale) {
  check_encodable(image);
  for (const char letter : plain_text(text)) {
    const uint64_t glyph = glyph_of(letter);
    for (int64_t row = 0; row < 7 * scale; ++row)
      for (int64_t column = 0; column < 5 * scale; ++column) {
        const int64_t bit = 34 - (row / scale * 5 + column / scale);
        const int64_t at_y = y + row, at_x = x + column;
        if ((glyph >> bit & 1) == 0 || at_y < 0 || at_y >= image.height || at_x < 0 || at_x >= image.width) continue;
        for (int64_t c = 0; c < image.channels; ++c)
          image.bytes[static_cast<size_t>((at_y * image.width + at_x) * image.channels + c)] =
              colour[static_cast<size_t>(c)];
      }
    x += kLetterWidth * scale;
  }
}

}  // namespace dtrain
