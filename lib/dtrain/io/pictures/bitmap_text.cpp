#include "dtrain/io/pictures/bitmap_text.hpp"

#include <algorithm>
#include <array>

#include "dtrain/base/text.hpp"
#include "dtrain/io/pictures/codecs.hpp"

namespace dtrain {

// From ' ' to '~': nine rows of five pixels, the last two below the baseline. The first row is in the highest bits, and
// the leftmost pixel in the highest bit of its row.
static constexpr std::array<uint64_t, 95> kGlyphs = {
    0x000000000000, 0x042108401000, 0x0A5280000000, 0x0A57D5F52800, 0x047D1C5F1000, 0x18C888898C00, 0x0C9511593400,
    0x042200000000, 0x022210820800, 0x082084222000, 0x00255D520000, 0x00213E420000, 0x000000063088, 0x00003E000000,
    0x000000063000, 0x000888880000, 0x0E8CEB98B800, 0x046108423800, 0x0E8844447C00, 0x1F110418B800, 0x0232A5F10800,
    0x1F878218B800, 0x06443D18B800, 0x1F0888842000, 0x0E8C5D18B800, 0x0E8C5E113000, 0x006300C60000, 0x000318063088,
    0x022220820800, 0x0007C1F00000, 0x082082222000, 0x0E8844401000, 0x0E885B5AB800, 0x0E8C63F8C400, 0x1E8C7D18F800,
    0x0E8C2108B800, 0x1C9463197000, 0x1F843D087C00, 0x1F843D084000, 0x0E8C2F18BC00, 0x118C7F18C400, 0x0E2108423800,
    0x071084293000, 0x119531494400, 0x108421087C00, 0x11DD6B18C400, 0x118E6B38C400, 0x0E8C6318B800, 0x1E8C7D084000,
    0x0E8C63593400, 0x1E8C7D494400, 0x0F841C10F800, 0x1F2108421000, 0x118C6318B800, 0x118C63151000, 0x118C6B5AA800,
    0x118A88A8C400, 0x118C54421000, 0x1F0888887C00, 0x0E4210843800, 0x008208208000, 0x0E1084213800, 0x045440000000,
    0x000000007C00, 0x082080000000, 0x000382F8BC00, 0x1085B318F800, 0x0003A108B800, 0x010B6718BC00, 0x0003A3F83800,
    0x064A38842000, 0x00036719B42E, 0x1085B318C400, 0x040308423800, 0x020184210A4C, 0x1084A98A4800, 0x0C2108423800,
    0x0006AB58C400, 0x0005B318C400, 0x0003A318B800, 0x0005B31CDA10, 0x00036719B421, 0x0005B3084000, 0x0003A0E0F800,
    0x084710849800, 0x00046319B400, 0x000463151000, 0x0004635AA800, 0x000454454400, 0x00046319B42E, 0x0007C4447C00,
    0x022110420800, 0x042108421000, 0x082104422000, 0x00022A200000};

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
    for (int64_t row = 0; row < 9 * scale; ++row)
      for (int64_t column = 0; column < 5 * scale; ++column) {
        const int64_t bit = 44 - (row / scale * 5 + column / scale);
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
