#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/pictures/codecs.hpp"
#include "dtrain/io/pictures/tiff_input.hpp"
#include "dtrain/io/pictures/tiff_pages.hpp"

namespace dtrain {

namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw DataError(name + " is a damaged TIFF: " + why);
}

[[noreturn]] void refuse(const TiffInput& input, const std::string& name) {
  refuse(name, input.error.empty() ? "the file ends too early" : input.error);
}

[[noreturn]] void refuse_kind(const std::string& name, const std::string& kind) {
  throw DataError(name + " is a TIFF " + kind +
                  "; grey, RGB, YCbCr and palette of 1, 2, 4, 8 and 16 bits are read: convert it first");
}

/// What the directory says, as far as pixels depend on it.
struct TiffForm {
  int64_t height = 0;
  int64_t width = 0;
  uint16_t bits = 1;
  uint16_t samples = 1;  // per pixel as stored
  uint16_t photometric = 0;
  uint16_t compression = COMPRESSION_NONE;
  uint16_t planar = PLANARCONFIG_CONTIG;
  uint16_t orientation = ORIENTATION_TOPLEFT;
  bool premultiplied = false;  // the colours, by an alpha that follows them
  bool by_library = false;     // libtiff itself turns it to RGB: YCbCr that is no JPEG of today

  int64_t colours() const { return photometric == PHOTOMETRIC_RGB || photometric == PHOTOMETRIC_YCBCR ? 3 : 1; }
  /// Samples of a pixel that are needed, the first ones.
  int64_t kept() const { return colours() + (premultiplied ? 1 : 0); }
  bool turned() const { return orientation >= ORIENTATION_LEFTTOP; }  // rows and columns change places

  ImageHeader header() const {
    ImageHeader header{height, width, colours(), bits == 16 ? 16 : 8};
    if (photometric == PHOTOMETRIC_PALETTE) header.channels = 3;
    if (photometric == PHOTOMETRIC_PALETTE) header.bits = 8;
    if (turned()) std::swap(header.height, header.width);
    return header;
  }
};

template <typename Value>
Value tiff_field(TIFF* tiff, uint32_t tag, Value otherwise) {
  Value value = otherwise;
  return TIFFGetFieldDefaulted(tiff, tag, &value) == 1 ? value : otherwise;
}

bool is_fax(uint16_t compression) {
  return compression == COMPRESSION_CCITTRLE || compression == COMPRESSION_CCITTFAX3 ||
         compression == COMPRESSION_CCITTFAX4;
}

void check_compression(uint16_t compression, const std::string& name) {
  switch (compression) {
    case COMPRESSION_NONE:
    case COMPRESSION_CCITTRLE:
    case COMPRESSION_CCITTFAX3:
    case COMPRESSION_CCITTFAX4:
    case COMPRESSION_LZW:
    case COMPRESSION_OJPEG:
    case COMPRESSION_JPEG:
    case COMPRESSION_ADOBE_DEFLATE:
    case COMPRESSION_DEFLATE:
    case COMPRESSION_PACKBITS:
      return;
    default:
      const TIFFCodec* codec = TIFFFindCODEC(compression);
      throw DataError(name + " is a TIFF compressed by " +
                      (codec != nullptr ? codec->name : "scheme " + std::to_string(compression)) +
                      "; LZW, deflate, packbits, JPEG, CCITT and none are read: convert it first");
  }
}

void check_samples(TIFF* tiff, const TiffForm& form, const std::string& name) {
  const auto format = tiff_field<uint16_t>(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  if (format == SAMPLEFORMAT_IEEEFP) refuse_kind(name, "of floats");
  if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID) refuse_kind(name, "of signed or complex samples");
  if (form.samples > 8) refuse_kind(name, "of " + std::to_string(form.samples) + " channels");
  switch (form.photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
      if (form.samples > 2) refuse_kind(name, "of " + std::to_string(form.samples) + " grey channels");
      break;
    case PHOTOMETRIC_PALETTE:
      if (form.bits > 8) refuse_kind(name, "with a palette of " + std::to_string(form.bits) + " bits");
      break;
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
      if (form.samples < 3) refuse(name, "colour needs three samples a pixel");
      if (form.bits != 8 && (form.bits != 16 || form.photometric == PHOTOMETRIC_YCBCR))
        refuse_kind(name, "of " + std::to_string(form.bits) + "-bit colour");
      break;
    case PHOTOMETRIC_SEPARATED:
      refuse_kind(name, "of CMYK inks");
    case PHOTOMETRIC_CIELAB:
    case PHOTOMETRIC_ICCLAB:
    case PHOTOMETRIC_ITULAB:
      refuse_kind(name, "of L*a*b* colours");
    default:
      refuse_kind(name, "of photometric interpretation " + std::to_string(form.photometric));
  }
  if (std::ranges::count(std::array{1, 2, 4, 8, 16}, form.bits) == 0)
    refuse_kind(name, "of " + std::to_string(form.bits) + " bits");
}

/// ImageJ writes a stack of more than 4 GB as one picture with the others' pixels behind it.
void check_description(TIFF* tiff, const std::string& name) {
  char* text = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_IMAGEDESCRIPTION, &text) != 1 || text == nullptr) return;
  const char* images = std::strncmp(text, "ImageJ=", 7) == 0 ? std::strstr(text, "\nimages=") : nullptr;
  if (images != nullptr && std::atoll(images + 8) > 1)
    throw DataError(name + " is a stack of " + std::to_string(std::atoll(images + 8)) +
                    " pictures that only ImageJ knows of; save it with a directory for each (Bio-Formats, BigTIFF)");
}

TiffForm read_form(TIFF* tiff, const std::string& name, const ImageLimits& limits) {
  TiffForm form;
  form.width = tiff_field<uint32_t>(tiff, TIFFTAG_IMAGEWIDTH, 0);
  form.height = tiff_field<uint32_t>(tiff, TIFFTAG_IMAGELENGTH, 0);
  check_pixels({form.height, form.width, 1, 8}, name, limits);
  form.bits = tiff_field<uint16_t>(tiff, TIFFTAG_BITSPERSAMPLE, 1);
  form.samples = tiff_field<uint16_t>(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  form.compression = tiff_field<uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  form.planar = tiff_field<uint16_t>(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  form.orientation = tiff_field<uint16_t>(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
  if (form.orientation < 1 || form.orientation > 8) form.orientation = ORIENTATION_TOPLEFT;
  const bool fax = is_fax(form.compression);  // where the field is missing, libtiff's guess
  const uint16_t unnamed = form.samples >= 3 ? PHOTOMETRIC_RGB : fax ? PHOTOMETRIC_MINISWHITE : PHOTOMETRIC_MINISBLACK;
  form.photometric = tiff_field<uint16_t>(tiff, TIFFTAG_PHOTOMETRIC, unnamed);
  check_compression(form.compression, name);
  check_samples(tiff, form, name);
  check_description(tiff, name);
  const bool jpeg = form.compression == COMPRESSION_JPEG && form.planar == PLANARCONFIG_CONTIG;
  form.by_library = form.photometric == PHOTOMETRIC_YCBCR && !jpeg;
  if (form.photometric == PHOTOMETRIC_YCBCR && jpeg) TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  uint16_t extras = 0;
  uint16_t* kinds = nullptr;
  const bool has_more = form.photometric != PHOTOMETRIC_PALETTE && form.samples > form.colours();
  if (has_more && !form.by_library && TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &extras, &kinds) == 1 && extras > 0)
    form.premultiplied = kinds[0] == EXTRASAMPLE_ASSOCALPHA;
  return form;
}

/// The file's only page, checked.
TiffForm begin(TiffInput& input, const std::string& name, const ImageLimits& limits) {
  const std::vector<uint64_t> pages = tiff_pages(input.file, name);
  if (pages.size() > 1)
    throw DataError(name + " is a stack of " + count_of(static_cast<int64_t>(pages.size()), "page") +
                    ", where one picture is read; of a file name one as FILE#1, in an archive or record file write its "
                    "pages as members (records) of their own");
  if (!input.open(name, pages[0])) refuse(input, name);
  return read_form(input.tiff, name, limits);
}

/// Bytes of unpacked rows of `width` pixels.
int64_t plane_bytes(const TiffForm& form, int64_t width, int64_t height) {
  const int64_t samples = form.planar == PLANARCONFIG_CONTIG ? form.samples : 1;
  return (width * samples * form.bits + 7) / 8 * height;
}

/// A small file that promises more than its compression can hold is refused before memory is taken for it.
void check_tiff_plausible(const TiffForm& form, int64_t unpacked, int64_t rows, size_t file_bytes,
                          const std::string& name) {
  const auto bytes = static_cast<int64_t>(file_bytes);
  int64_t most = 4096;  // times smaller, by LZW and JPEG
  if (form.compression == COMPRESSION_NONE) most = 1;
  if (form.compression == COMPRESSION_PACKBITS) most = 64;
  if (form.compression == COMPRESSION_ADOBE_DEFLATE || form.compression == COMPRESSION_DEFLATE) most = 1032;
  if (is_fax(form.compression) ? rows / 8 > bytes : unpacked / most > bytes)  // a fax needs a bit for a row
    refuse(name, "the file is too short for the picture that its header promises");
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
        std::memcpy(&value, row + 2 * at, 2);  // libtiff has put it into host order
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
  int64_t width = 0;  // as unpacked: of a tile, with what reaches out of the picture
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
    if (width_ < 1 || height_ < 1) refuse(name, "its strips or tiles hold nothing");
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
    if (got != size || !input_.error.empty()) refuse(input_, name_);
  }

  TiffInput& input_;
  const TiffForm& form_;
  const std::string& name_;
  bool tiled_ = false;
  int64_t width_ = 0;
  int64_t height_ = 0;
  int64_t planes_ = 1;
};

/// libtiff's own way to RGB, in the order of the rows as stored.
void read_by_library(TiffInput& input, const TiffForm& form, const std::string& name, Image& image) {
  std::vector<uint32_t> raster(static_cast<size_t>(form.width * form.height));
  if (TIFFReadRGBAImageOriented(input.tiff, static_cast<uint32_t>(form.width), static_cast<uint32_t>(form.height),
                                raster.data(), form.orientation, 1) != 1 ||
      !input.error.empty())
    refuse(input, name);
  auto out = image.bytes.begin();
  for (const uint32_t pixel : raster) {
    *out++ = static_cast<uint8_t>(TIFFGetR(pixel));
    *out++ = static_cast<uint8_t>(TIFFGetG(pixel));
    *out++ = static_cast<uint8_t>(TIFFGetB(pixel));
  }
}

/// Numbers to colours.
Image expand_palette(TIFF* tiff, const TiffForm& form, const Image& numbers, const std::string& name) {
  uint16_t* maps[3] = {};
  if (TIFFGetField(tiff, TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2]) != 1) refuse(name, "it has no palette");
  const size_t entries = size_t{1} << form.bits;
  // Entries have 16 bits; some writers fill the lower 8 alone.
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

/// Colours that were multiplied by the alpha behind them, as they were before; the alpha is dropped.
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

/// Rows and columns as they are to be looked at.
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

}  // namespace

ImageHeader read_tiff_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  TiffInput input(file);
  return begin(input, name, limits).header();
}

Image decode_tiff(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  TiffInput input(file);
  const TiffForm form = begin(input, name, limits);
  const int64_t planes = form.planar == PLANARCONFIG_CONTIG ? 1 : form.kept();
  check_tiff_plausible(form, plane_bytes(form, form.width, form.height) * planes, form.height, file.size(), name);
  input.error.clear();                                   // about the directory, which has been read all the same
  input.strict = form.compression != COMPRESSION_OJPEG;  // which warns of being old
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

}  // namespace dtrain
