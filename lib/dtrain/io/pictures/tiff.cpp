#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/pictures/codecs.hpp"
#include "dtrain/io/pictures/tiff_form.hpp"
#include "dtrain/io/pictures/tiff_input.hpp"
#include "dtrain/io/pictures/tiff_pages.hpp"

namespace dtrain {

namespace {

[[noreturn]] void refuse_input(const TiffInput& input, const std::string& name) {
  refuse_damaged_tiff(name, input.error.empty() ? "the file ends too early" : input.error);
}

/// Opens and checks the file's only page.
TiffForm begin(TiffInput& input, const std::string& name, const ImageLimits& limits) {
  const std::vector<uint64_t> pages = tiff_pages(input.file, name);
  if (pages.size() > 1)
    throw DataError(name + " is a stack of " + count_of(static_cast<int64_t>(pages.size()), "page") +
                    ", but one picture is read; name one of a file as FILE#1, in an archive or record file write its "
                    "pages as separate members (records)");
  if (!input.open(name, pages[0])) refuse_input(input, name);
  return read_tiff_form(input.tiff, name, limits);
}

/// Bytes of unpacked rows of `width` pixels.
int64_t plane_bytes(const TiffForm& form, int64_t width, int64_t height) {
  const int64_t samples = form.planar == PLANARCONFIG_CONTIG ? form.samples : 1;
  return (width * samples * form.bits + 7) / 8 * height;
}

/// Refuses a file that is too small for what it promises, even fully compressed, before memory is allocated for it.
void check_tiff_plausible(const TiffForm& form, int64_t unpacked, int64_t rows, size_t file_bytes,
                          const std::string& name) {
  const auto bytes = static_cast<int64_t>(file_bytes);
  int64_t most = 4096;  // the most that LZW and JPEG can compress
  if (form.compression == COMPRESSION_NONE) most = 1;
  if (form.compression == COMPRESSION_PACKBITS) most = 64;
  if (form.compression == COMPRESSION_ADOBE_DEFLATE || form.compression == COMPRESSION_DEFLATE) most = 1032;
  if (form.fax() ? rows / 8 > bytes : unpacked / most > bytes)  // a fax needs at least one bit per row
    refuse_damaged_tiff(name, "the file is too short for the picture that its header promises");
}

/// The samples of one row of a strip or tile, from `row` to every `step`-th value of `out`.
template <typename Value>
void place_samples(const uint8_t* row, int bits, int64_t count, int64_t stored, int64_t kept, int64_t step,
                   Value* out) {
  for (int64_t x = 0; x < count; ++x, out += step)
    for (int64_t s = 0; s < kept; ++s) {
      const int64_t at = x * stored + s;
      if (bits == 16) {
        uint16_t value;
        std::memcpy(&value, row + 2 * at, 2);  // in host order already, by libtiff
        out[s] = static_cast<Value>(value);
      } else if (bits == 8) {
        out[s] = row[at];
      } else {
        out[s] = static_cast<Value>(row[at * bits / 8] >> (8 - bits - at * bits % 8) & ((1 << bits) - 1));
      }
    }
}

/// A rectangle of the picture that libtiff unpacks at once.
struct Block {
  uint32_t number = 0;
  int64_t plane = 0;
  int64_t x = 0;
  int64_t y = 0;
  int64_t width = 0;  // as unpacked: a tile with its part outside the picture
  int64_t height = 0;
};

template <typename Value>
void place_block(const TiffForm& form, const Block& block, const std::vector<uint8_t>& unpacked, Value* picture) {
  const bool contiguous = form.planar == PLANARCONFIG_CONTIG;
  const int64_t stored = contiguous ? form.samples : 1;
  const int64_t kept = form.kept();
  const int64_t row_bytes = plane_bytes(form, block.width, 1);
  const int64_t columns = std::min(block.width, form.width - block.x);
  const int64_t rows = std::min(block.height, form.height - block.y);
  const bool straight = contiguous && stored == kept && form.bits >= 8;
  for (int64_t y = 0; y < rows; ++y) {
    const uint8_t* row = unpacked.data() + y * row_bytes;
    Value* out = picture + ((block.y + y) * form.width + block.x) * kept + block.plane;
    if (straight) {
      std::memcpy(out, row, static_cast<size_t>(columns * kept) * sizeof(Value));
    } else {
      place_samples(row, form.bits, columns, stored, contiguous ? kept : 1, kept, out);
    }
  }
}

/// All strips or tiles of the planes that are needed.
class Blocks {
 public:
  Blocks(TiffInput& input, const TiffForm& form, const std::string& name) : input_(input), form_(form), name_(name) {
    tiled_ = TIFFIsTiled(input.tiff) != 0;
    width_ = tiled_ ? tiff_field<uint32_t>(input.tiff, TIFFTAG_TILEWIDTH, 0) : form.width;
    height_ = tiled_
                  ? tiff_field<uint32_t>(input.tiff, TIFFTAG_TILELENGTH, 0)
                  : std::min<int64_t>(form.height, tiff_field<uint32_t>(input.tiff, TIFFTAG_ROWSPERSTRIP, UINT32_MAX));
    if (width_ < 1 || height_ < 1) refuse_damaged_tiff(name, "its strips or tiles are empty");
    check_pixels({height_, width_, 1, 8}, name, {});
    check_tiff_plausible(form, plane_bytes(form, width_, height_), height_, input.file.size(), name);
    planes_ = form.planar == PLANARCONFIG_CONTIG ? 1 : form.kept();
  }

  template <typename Value>
  void read(Value* picture) {
    std::vector<uint8_t> unpacked(static_cast<size_t>(plane_bytes(form_, width_, height_)));
    Block block{0, 0, 0, 0, width_, height_};
    for (block.plane = 0; block.plane < planes_; ++block.plane)
      for (block.y = 0; block.y < form_.height; block.y += height_)
        for (block.x = 0; block.x < form_.width; block.x += width_, ++block.number) {
          if (!tiled_) block.height = std::min(height_, form_.height - block.y);
          unpack(block, unpacked);
          place_block(form_, block, unpacked, picture);
        }
  }

 private:
  void unpack(const Block& block, std::vector<uint8_t>& out) {
    const auto size = static_cast<tmsize_t>(plane_bytes(form_, block.width, block.height));
    const tmsize_t got = tiled_ ? TIFFReadEncodedTile(input_.tiff, block.number, out.data(), size)
                                : TIFFReadEncodedStrip(input_.tiff, block.number, out.data(), size);
    if (got != size || !input_.error.empty()) refuse_input(input_, name_);
  }

  TiffInput& input_;
  const TiffForm& form_;
  const std::string& name_;
  bool tiled_ = false;
  int64_t width_ = 0;
  int64_t height_ = 0;
  int64_t planes_ = 1;
};

/// Reads by libtiff's own conversion to RGB, rows in the order stored.
void read_by_library(TiffInput& input, const TiffForm& form, const std::string& name, Image& image) {
  std::vector<uint32_t> raster(static_cast<size_t>(form.width * form.height));
  if (TIFFReadRGBAImageOriented(input.tiff, static_cast<uint32_t>(form.width), static_cast<uint32_t>(form.height),
                                raster.data(), form.orientation, 1) != 1 ||
      !input.error.empty())
    refuse_input(input, name);
  auto out = image.bytes.begin();
  for (const uint32_t pixel : raster) {
    *out++ = static_cast<uint8_t>(TIFFGetR(pixel));
    *out++ = static_cast<uint8_t>(TIFFGetG(pixel));
    *out++ = static_cast<uint8_t>(TIFFGetB(pixel));
  }
}

/// Turns palette indices into colours.
Image expand_palette(TIFF* tiff, const TiffForm& form, const Image& numbers, const std::string& name) {
  uint16_t* maps[3] = {};
  if (TIFFGetField(tiff, TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2]) != 1)
    refuse_damaged_tiff(name, "it has no palette");
  const size_t entries = size_t{1} << form.bits;
  // Entries have 16 bits; some writers use only the lower 8.
  const bool low = std::all_of(maps, maps + 3, [&](const uint16_t* map) {
    return std::all_of(map, map + entries, [](uint16_t value) { return value < 256; });
  });
  Image image = allocate_image({numbers.height, numbers.width, 3, 8});
  auto out = image.bytes.begin();
  for (const uint8_t number : numbers.bytes)
    for (const uint16_t* map : maps) *out++ = static_cast<uint8_t>(low ? map[number] : map[number] >> 8);
  return image;
}

template <typename Value>
void scale_grey(const TiffForm& form, std::vector<Value>& values) {
  const int white = (1 << form.bits) - 1;
  const int scale = form.bits < 8 ? 255 / white : 1;
  const bool inverted = form.photometric == PHOTOMETRIC_MINISWHITE;
  if (scale == 1 && !inverted) return;
  for (Value& value : values) value = static_cast<Value>((inverted ? white - value : value) * scale);
}

/// Divides colours by the alpha that they were multiplied by, and drops the alpha.
template <typename Value>
void divide_by_alpha(int64_t colours, std::vector<Value>& values) {
  const auto white = static_cast<uint32_t>(static_cast<Value>(-1));
  const auto step = static_cast<size_t>(colours) + 1;
  size_t out = 0;
  for (size_t at = 0; at < values.size(); at += step) {
    const uint32_t alpha = values[at + step - 1];
    for (size_t c = 0; c + 1 < step; ++c, ++out) {
      const uint32_t value = values[at + c];
      values[out] = alpha == 0 ? values[at + c] : static_cast<Value>(std::min(white, value * white / alpha));
    }
  }
  values.resize(out);
}

/// Turns or mirrors the picture as its Orientation says.
template <typename Value>
std::vector<Value> oriented(const std::vector<Value>& stored, const TiffForm& form, int64_t channels) {
  const uint16_t o = form.orientation;
  const bool left =
      o == ORIENTATION_TOPRIGHT || o == ORIENTATION_BOTRIGHT || o == ORIENTATION_RIGHTTOP || o == ORIENTATION_RIGHTBOT;
  const bool up =
      o == ORIENTATION_BOTRIGHT || o == ORIENTATION_BOTLEFT || o == ORIENTATION_RIGHTBOT || o == ORIENTATION_LEFTBOT;
  const int64_t height = form.turned() ? form.width : form.height;
  const int64_t width = form.turned() ? form.height : form.width;
  std::vector<Value> out(stored.size());
  auto place = out.begin();
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const int64_t to_y = up ? height - 1 - y : y;
      const int64_t to_x = left ? width - 1 - x : x;
      const int64_t pixel = form.turned() ? to_x * form.width + to_y : to_y * form.width + to_x;
      place = std::copy_n(stored.begin() + pixel * channels, channels, place);
    }
  return out;
}

void orient(const TiffForm& form, Image& image) {
  if (form.orientation == ORIENTATION_TOPLEFT) return;
  if (image.bits == 16) image.words = oriented(image.words, form, image.channels);
  if (image.bits == 8) image.bytes = oriented(image.bytes, form, image.channels);
  if (form.turned()) std::swap(image.height, image.width);
}

bool begins_tiff(std::string_view bytes) {
  using namespace std::string_view_literals;
  return bytes.starts_with("II*\0"sv) || bytes.starts_with("MM\0*"sv) || bytes.starts_with("II+\0"sv) ||
         bytes.starts_with("MM\0+"sv);
}

ImageHeader read_tiff_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  TiffInput input(file);
  return begin(input, name, limits).header();
}

Image decode_tiff(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  TiffInput input(file);
  const TiffForm form = begin(input, name, limits);
  const int64_t planes = form.planar == PLANARCONFIG_CONTIG ? 1 : form.kept();
  check_tiff_plausible(form, plane_bytes(form, form.width, form.height) * planes, form.height, file.size(), name);
  input.error.clear();                                   // about the directory, which could be read nevertheless
  input.strict = form.compression != COMPRESSION_OJPEG;  // libtiff warns that OJPEG is old
  Blocks blocks(input, form, name);
  Image image = allocate_image({form.height, form.width, form.kept(), form.bits == 16 ? 16 : 8});
  if (form.by_library) {
    read_by_library(input, form, name, image);
  } else if (image.bits == 16) {
    blocks.read(image.words.data());
  } else {
    blocks.read(image.bytes.data());
  }
  if (form.photometric == PHOTOMETRIC_PALETTE) {
    image = expand_palette(input.tiff, form, image, name);
  } else if (form.colours() == 1 && image.bits == 16) {
    scale_grey(form, image.words);
  } else if (form.colours() == 1) {
    scale_grey(form, image.bytes);
  }
  if (form.premultiplied) {
    if (image.bits == 16) divide_by_alpha(form.colours(), image.words);
    if (image.bits == 8) divide_by_alpha(form.colours(), image.bytes);
    image.channels = form.colours();
  }
  orient(form, image);
  return image;
}

}  // namespace

/// Classic and BigTIFF, one page (see tiff_pages.hpp; DataError for several); strips and tiles; grey of 1, 2, 4, 8 and
/// 16 bits, black or white as zero, RGB of 8 and 16 bits, palette, YCbCr; planes separate or interleaved; uncompressed,
/// LZW, deflate, packbits, JPEG, CCITT. The Orientation field is applied. Colours multiplied by their alpha are divided
/// by it.
extern const PictureFormat kTiff = {
    .name = "TIFF",
    .endings = {".tif", ".tiff"},
    .begins = begins_tiff,
    .decode = decode_tiff,
    .read_header = read_tiff_header,
};

}  // namespace dtrain
