#pragma once
// Plain libpng with the settings of io/png.cpp, to compare our own decoding of pixels with.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dtrain::test {

struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> rest;
  std::vector<uint8_t> samples;
  std::vector<png_bytep> rows;
  int64_t row_bytes = 0;
};

inline void read_bytes(png_structp png, png_bytep out, size_t count) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader.rest.size()) png_error(png, "short");
  std::copy_n(reader.rest.begin(), count, reinterpret_cast<std::byte*>(out));
  reader.rest = reader.rest.subspan(count);
}

[[noreturn]] inline void jump(png_structp png, png_const_charp) { png_longjmp(png, 1); }
inline void ignore(png_structp, png_const_charp) {}

inline bool read_header(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  static constexpr png_byte kUnused[] =
      "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0tEXt\0tIME\0zTXt";
  png_set_read_fn(reader.png, &reader, read_bytes);
  png_set_crc_action(reader.png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_set_chunk_malloc_max(reader.png, 8 << 20);
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, kUnused, sizeof kUnused / 5);
  png_read_info(reader.png, reader.info);
  if (png_get_color_type(reader.png, reader.info) == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(reader.png);
  if (png_get_color_type(reader.png, reader.info) == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(reader.png);
  png_set_swap(reader.png);
  png_set_strip_alpha(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

inline bool read_rows(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_read_image(reader.png, reader.rows.data());
  png_read_end(reader.png, nullptr);
  return true;
}

/// The samples as bytes, in this machine's order; none if libpng refuses, or the picture has more than 2^22 pixels.
inline std::optional<std::vector<uint8_t>> by_libpng(std::span<const std::byte> file) {
  PngReader reader;
  reader.rest = file;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, jump, ignore);
  reader.info = png_create_info_struct(reader.png);
  bool good = read_header(reader);
  const auto height = good ? png_get_image_height(reader.png, reader.info) : 0;
  if (good && uint64_t{height} * png_get_image_width(reader.png, reader.info) <= 1 << 22) {
    const size_t row_bytes = png_get_rowbytes(reader.png, reader.info);
    reader.samples.resize(height * row_bytes);
    for (uint32_t y = 0; y < height; ++y) reader.rows.push_back(reader.samples.data() + y * row_bytes);
    good = read_rows(reader);
  } else {
    good = false;
  }
  png_destroy_read_struct(&reader.png, &reader.info, nullptr);
  return good ? std::optional(std::move(reader.samples)) : std::nullopt;
}

}  // namespace dtrain::test
