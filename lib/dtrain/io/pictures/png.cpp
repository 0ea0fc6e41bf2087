#include <png.h>

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstring>
#include <string>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/io/pictures/codecs.hpp"
#include "dtrain/io/pictures/png_pixels.hpp"

namespace dtrain {

namespace {

/// libpng's two structures. It reports errors by longjmp: all calls go through guarded().
struct PngFile {
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[256] = "";

  PngFile() = default;
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;
};

/// A file that is read.
struct PngInput : PngFile {
  std::span<const std::byte> rest;

  explicit PngInput(std::span<const std::byte> file) : rest(file) {}
  ~PngInput() { png_destroy_read_struct(&png, &info, nullptr); }
};

/// A file that is written into memory that is there already: a callback of libpng may not throw.
struct PngOutput : PngFile {
  std::span<std::byte> room;  // what is left of it

  explicit PngOutput(std::span<std::byte> all) : room(all) {}
  ~PngOutput() { png_destroy_write_struct(&png, &info); }
};

[[noreturn]] void on_png_error(png_structp png, png_const_charp message) {
  auto& file = *static_cast<PngFile*>(png_get_error_ptr(png));
  std::strncpy(file.message, message, sizeof file.message - 1);
  png_longjmp(png, 1);
}

/// Warnings are about chunks that are not used here (profiles, text); damage to pixels is an error.
void on_png_warning(png_structp, png_const_charp) {}

void on_png_read(png_structp png, png_bytep out, size_t count) {
  auto& input = *static_cast<PngInput*>(png_get_io_ptr(png));
  if (count > input.rest.size()) png_error(png, "the file ends too early");
  std::memcpy(out, input.rest.data(), count);
  input.rest = input.rest.subspan(count);
}

void on_png_write(png_structp png, png_bytep bytes, size_t count) {
  auto& output = *static_cast<PngOutput*>(png_get_io_ptr(png));
  if (count > output.room.size()) png_error(png, "no room is left");
  std::memcpy(output.room.data(), bytes, count);
  output.room = output.room.subspan(count);
}

void on_png_flush(png_structp) {}

/// Runs `step`, which may call libpng; false if it jumped out. Neither `step` nor what it calls may own anything:
/// a jump runs no destructors.
template <typename Step>
[[gnu::noinline]] bool guarded(PngFile& file, const Step& step) {
  if (setjmp(png_jmpbuf(file.png)) != 0) return false;
  step();
  return true;
}

[[noreturn]] void refuse_png(const PngInput& input, const std::string& name) {
  throw DataError(name + " is a damaged PNG: " + input.message);
}

/// Reads up to the first pixel data. Chunks that cannot change a sample are passed over unread, the rest is capped: a
/// small compressed text or profile may unpack to gigabytes.
bool read_chunks_before_pixels(PngInput& input) {
  static constexpr png_byte kUnused[] =
      "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0tEXt\0tIME\0zTXt";
  return guarded(input, [&input] {
    png_set_read_fn(input.png, &input, on_png_read);
    png_set_user_limits(input.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // the cap is on pixels, in check_pixels()
    png_set_crc_action(input.png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_chunk_cache_max(input.png, 128);
    png_set_chunk_malloc_max(input.png, 8 << 20);
    png_set_keep_unknown_chunks(input.png, PNG_HANDLE_CHUNK_NEVER, kUnused, sizeof kUnused / 5);
    png_read_info(input.png, input.info);
  });
}

ImageHeader png_header(const PngInput& input) {
  ImageHeader header;
  header.height = png_get_image_height(input.png, input.info);
  header.width = png_get_image_width(input.png, input.info);
  header.channels = (png_get_color_type(input.png, input.info) & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
  header.bits = png_get_bit_depth(input.png, input.info) == 16 ? 16 : 8;
  return header;
}

/// Deflate shrinks at most 1032-fold: a small file that promises more is refused before memory is taken for it.
void check_plausible(const PngInput& input, const ImageHeader& header, size_t file_bytes, const std::string& name) {
  const int64_t packed = header.height * static_cast<int64_t>(png_get_rowbytes(input.png, input.info));
  if (packed / 1032 > static_cast<int64_t>(file_bytes))
    throw DataError(name + " is a damaged PNG: the file is too short for the picture that its header promises");
}

/// `channels`: of the picture; 1 of a palette are its indices.
void set_transformations(const PngInput& input, int64_t channels) {
  const int type = png_get_color_type(input.png, input.info);
  if (type == PNG_COLOR_TYPE_PALETTE && channels == 3) png_set_palette_to_rgb(input.png);
  if (type == PNG_COLOR_TYPE_PALETTE && channels == 1) png_set_packing(input.png);  // a byte each
  if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(input.png);
  if constexpr (std::endian::native == std::endian::little) png_set_swap(input.png);
  png_set_strip_alpha(input.png);
  png_set_interlace_handling(input.png);
  png_read_update_info(input.png, input.info);
}

PngLayout layout_of(const PngInput& input) {
  PngLayout layout;
  layout.height = png_get_image_height(input.png, input.info);
  layout.width = png_get_image_width(input.png, input.info);
  layout.samples = png_get_channels(input.png, input.info);
  layout.depth = png_get_bit_depth(input.png, input.info);
  layout.palette = png_get_color_type(input.png, input.info) == PNG_COLOR_TYPE_PALETTE;
  png_colorp colours = nullptr;
  int count = 0;
  if (layout.palette && png_get_PLTE(input.png, input.info, &colours, &count) != 0) {
    layout.colour_count = count;
    for (int i = 0; i < count; ++i)
      layout.colours[static_cast<size_t>(i)] = {colours[i].red, colours[i].green, colours[i].blue};
  }
  return layout;
}

bool has_coloured_palette(const PngInput& input) {
  const PngLayout layout = layout_of(input);
  return std::any_of(layout.colours.begin(), layout.colours.begin() + layout.colour_count,
                     [](const auto& colour) { return colour[0] != colour[1] || colour[1] != colour[2]; });
}

/// The way that almost every file takes. False: libpng must look, and goes on from where it stands.
bool decode_quickly(const PngInput& input, std::span<const std::byte> file, Image& image) {
  if (png_get_interlace_type(input.png, input.info) != PNG_INTERLACE_NONE) return false;
  const size_t place = file.size() - input.rest.size() - 8;  // libpng has read length and type of the first IDAT
  return decode_png_pixels(file.subspan(place), layout_of(input), image);
}

/// The file's header, checked; leaves `input` before the first pixel.
ImageHeader begin_png(PngInput& input, const std::string& name, const ImageLimits& limits) {
  input.png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, static_cast<PngFile*>(&input), on_png_error, on_png_warning);
  check(input.png != nullptr, "libpng's header and library are of one version");
  input.info = png_create_info_struct(input.png);
  check(input.info != nullptr, "libpng makes its info structure");
  if (!read_chunks_before_pixels(input)) refuse_png(input, name);
  const ImageHeader header = png_header(input);
  check_pixels(header, name, limits);
  return header;
}

Image decode(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits, bool mask) {
  PngInput input(file);
  ImageHeader header = begin_png(input, name, limits);
  check_plausible(input, header, file.size(), name);
  if (mask && has_coloured_palette(input)) header.channels = 1;
  Image image = allocate_image(header);
  if (decode_quickly(input, file, image)) return image;
  auto* samples = header.bits == 16 ? reinterpret_cast<png_byte*>(image.words.data()) : image.bytes.data();
  const auto row_bytes = static_cast<size_t>(header.width * header.channels * header.bits / 8);
  std::vector<png_bytep> rows(static_cast<size_t>(header.height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = samples + y * row_bytes;
  const bool whole = guarded(input, [&] {
    set_transformations(input, header.channels);
    if (png_get_rowbytes(input.png, input.info) != row_bytes) png_error(input.png, "rows of an unexpected length");
    png_read_image(input.png, rows.data());
    png_read_end(input.png, nullptr);
  });
  if (!whole) refuse_png(input, name);
  return image;
}

ImageHeader read_png_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  PngInput input(file);
  return begin_png(input, name, limits);
}

Image decode_png(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  return decode(file, name, limits, false);
}

Image decode_png_mask(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  return decode(file, name, limits, true);
}

// 8-bit ones say that they are sRGB; nothing is said of 16-bit ones, whose values may mean anything.
void write_png(PngOutput& output, const Image& image, png_bytepp rows) {
  const int type = image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB;
  png_set_write_fn(output.png, &output, on_png_write, on_png_flush);
  png_set_user_limits(output.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_IHDR(output.png, output.info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height),
               image.bits, type, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
  if (image.bits == 8) png_set_sRGB(output.png, output.info, PNG_sRGB_INTENT_PERCEPTUAL);
  png_write_info(output.png, output.info);
  if constexpr (std::endian::native == std::endian::little)
    if (image.bits == 16) png_set_swap(output.png);
  png_write_image(output.png, rows);
  png_write_end(output.png, output.info);
}

}  // namespace

std::vector<std::byte> encode_png(const Image& image) {
  check_encodable(image, 16);
  const auto row_bytes = static_cast<size_t>(image.width * image.channels * image.bits / 8);
  const void* samples = image.bits == 16 ? static_cast<const void*>(image.words.data()) : image.bytes.data();
  std::vector<png_bytep> rows(static_cast<size_t>(image.height));
  for (size_t y = 0; y < rows.size(); ++y)  // libpng reads them alone, and says otherwise
    rows[y] = const_cast<png_bytep>(static_cast<const png_byte*>(samples)) + y * row_bytes;
  const size_t packed = PNG_ZLIB_MAX_SIZE((row_bytes + 1) * rows.size());
  std::vector<std::byte> file(packed + packed / 256 + 256);  // and the frames of its chunks, each of some kilobytes
  PngOutput output(file);
  output.png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, static_cast<PngFile*>(&output), on_png_error, on_png_warning);
  check(output.png != nullptr, "libpng's header and library are of one version");
  output.info = png_create_info_struct(output.png);
  check(output.info != nullptr, "libpng makes its info structure");
  const bool whole = guarded(output, [&] { write_png(output, image, rows.data()); });
  check(whole, std::string("libpng encodes a picture: ") + output.message);
  file.resize(file.size() - output.room.size());
  return file;
}

/// Every colour type and depth, interlaced too; an animated one gives its default picture. As a mask, one with a
/// palette that has a colour in it gives the indices into the palette.
extern const PictureFormat kPng = {
    .name = "PNG",
    .endings = {".png"},
    .begins = [](std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1A\n"); },
    .decode = decode_png,
    .read_header = read_png_header,
    .decode_mask = decode_png_mask,
};

}  // namespace dtrain
