#pragma once
// PNG of every colour type, depth, interlacing, filter and size, made through libpng's own writer.
#include <png.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain::test {

struct PngKind {
  int color_type = PNG_COLOR_TYPE_GRAY;
  int depth = 8;
  bool interlaced = false;
  bool transparency = false;  // a tRNS chunk
  int filters = PNG_ALL_FILTERS;
  uint32_t width = 19;  // no multiple of 8: the last byte of a packed row is part padding
  uint32_t height = 11;
  bool grey_palette = false;
};

inline int samples_per_pixel(int color_type) {
  switch (color_type) {
    case PNG_COLOR_TYPE_RGB:
      return 3;
    case PNG_COLOR_TYPE_RGB_ALPHA:
      return 4;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      return 2;
    default:
      return 1;
  }
}

/// Sample `s` of a pixel, below 2^depth: every value of the small depths occurs.
inline uint32_t sample_at(const PngKind& kind, uint32_t x, uint32_t y, int s) {
  const uint32_t mixed = (x * 2654435761u + y * 40503u + static_cast<uint32_t>(s) * 7919u) >> 7;
  return (mixed + x + y) & ((1u << kind.depth) - 1);
}

inline png_color palette_entry(uint32_t index) {
  return {static_cast<png_byte>(index * 37), static_cast<png_byte>(255 - index), static_cast<png_byte>(index * 5 + 1)};
}

/// Row `y` as the file stores it: packed, most significant first.
inline std::vector<png_byte> packed_row(const PngKind& kind, uint32_t y) {
  const int samples = samples_per_pixel(kind.color_type);
  std::vector<png_byte> row((kind.width * static_cast<uint32_t>(samples * kind.depth) + 7) / 8);
  uint32_t bit = 0;
  for (uint32_t x = 0; x < kind.width; ++x)
    for (int s = 0; s < samples; ++s)
      for (int b = kind.depth - 1; b >= 0; --b, ++bit)
        if ((sample_at(kind, x, y, s) >> b & 1) != 0) row[bit / 8] |= static_cast<png_byte>(0x80 >> bit % 8);
  return row;
}

inline void append(png_structp png, png_bytep data, size_t count) {
  auto& out = *static_cast<std::vector<std::byte>*>(png_get_io_ptr(png));
  out.insert(out.end(), reinterpret_cast<std::byte*>(data), reinterpret_cast<std::byte*>(data) + count);
}

inline void set_palette(png_structp png, png_infop info, const PngKind& kind) {
  std::vector<png_color> palette;
  for (uint32_t i = 0; i < 1u << kind.depth; ++i) {
    const png_color entry = palette_entry(i);
    palette.push_back(kind.grey_palette ? png_color{entry.green, entry.green, entry.green} : entry);
  }
  png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
}

inline void set_transparency(png_structp png, png_infop info, const PngKind& kind) {
  png_byte alphas[2] = {0, 128};
  png_color_16 color{0, 1, 1, 1, 1};
  const bool palette = kind.color_type == PNG_COLOR_TYPE_PALETTE;
  png_set_tRNS(png, info, palette ? alphas : nullptr, palette ? 2 : 0, palette ? nullptr : &color);
}

inline std::vector<std::byte> make_png(const PngKind& kind) {
  std::vector<std::byte> out;
  std::vector<std::vector<png_byte>> rows;
  std::vector<png_bytep> pointers;
  for (uint32_t y = 0; y < kind.height; ++y) rows.push_back(packed_row(kind, y));
  for (auto& row : rows) pointers.push_back(row.data());
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, append, nullptr);
  png_set_IHDR(png, info, kind.width, kind.height, kind.depth, kind.color_type,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_set_gAMA(png, info, 1.0);  // would change every sample if it were applied
  if (kind.color_type == PNG_COLOR_TYPE_PALETTE) set_palette(png, info, kind);
  if (kind.transparency) set_transparency(png, info, kind);
  png_set_filter(png, PNG_FILTER_TYPE_BASE, kind.filters);
  png_set_rows(png, info, pointers.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

}  // namespace dtrain::test
