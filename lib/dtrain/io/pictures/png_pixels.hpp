#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// How a PNG that is not interlaced stores its pixels, as its chunks before IDAT say.
struct PngLayout {
  int64_t height = 0;
  int64_t width = 0;
  int samples = 1;  ///< of a pixel: 1 grey or palette, 2 with alpha, 3 RGB, 4 with alpha
  int depth = 8;    ///< bits of a sample: 1, 2, 4, 8 or 16
  bool palette = false;
  std::array<std::array<uint8_t, 3>, 256> colours{};  ///< of a palette
  int64_t colour_count = 0;                           ///< how many of them there are

  int64_t row_bytes() const { return (width * samples * depth + 7) / 8; }
  int64_t pixel_bytes() const { return samples * depth < 8 ? 1 : samples * depth / 8; }
};

/// Decodes what is between the first IDAT chunk, with which `chunks` begins, and IEND into `image`, which has its
/// size and channels (of a palette, 3 for its colours or 1 for the indices): in a quarter of libpng's time on grey
/// pictures, and to its samples. False if anything is out of the ordinary (damage, more or fewer bytes than pixels,
/// other chunks between the IDATs, an index beyond the palette, more than 64 MiB of pixels, of which this would hold a
/// second copy): libpng then decides, and `image` holds nothing of use. What is taken here libpng takes without a
/// warning, but for one thing that no encoder writes: Huffman codes that leave codewords unused, which ISA-L minds only
/// if one of them turns up. All checksums are right even then.
bool decode_png_pixels(std::span<const std::byte> chunks, const PngLayout& layout, Image& image);

}  // namespace dtrain
