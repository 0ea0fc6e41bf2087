// Windows and OS/2 bitmaps.
#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/io/pictures/codecs.hpp"

namespace dtrain {

namespace {

constexpr size_t kFileHeader = 14;

enum Compression : uint32_t { kPlain = 0, kRle8 = 1, kRle4 = 2, kMasks = 3, kAlphaMasks = 6 };

using Rgb = std::array<uint8_t, 3>;

/// The bits of one colour in a pixel of 16 or 32 bits.
struct Mask {
  uint32_t bits = 0;
  uint8_t value(uint32_t pixel) const {
    if (bits == 0) return 0;
    const int shift = std::countr_zero(bits);
    return static_cast<uint8_t>(uint64_t{(pixel & bits) >> shift} * 255 / (bits >> shift));
  }
};

struct BmpHeader {
  ImageHeader picture;
  bool top_down = false;
  int depth = 0;  // bits per pixel
  uint32_t compression = kPlain;
  std::vector<Rgb> palette;  // for depth 8 and less
  Mask masks[3];             // red, green, blue; for depth 16 and 32
  size_t at = 0;             // offset of the first row stored

  int64_t row_bytes() const { return (picture.width * depth + 31) / 32 * 4; }
  bool packed() const { return compression == kRle8 || compression == kRle4; }
};

class BmpFile {
 public:
  BmpFile(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {}

  uint32_t number(size_t at, size_t bytes) const {
    if (at > file_.size() || file_.size() - at < bytes) refuse("the header ends too early");
    uint32_t value = 0;
    for (size_t i = bytes; i > 0; --i) value = value << 8 | std::to_integer<uint32_t>(file_[at + i - 1]);
    return value;
  }
  uint32_t u16(size_t at) const { return number(at, 2); }
  uint32_t u32(size_t at) const { return number(at, 4); }
  int64_t i32(size_t at) const { return static_cast<int32_t>(u32(at)); }

  std::span<const std::byte> file() const { return file_; }
  const uint8_t* bytes(size_t at) const { return reinterpret_cast<const uint8_t*>(file_.data()) + at; }

  [[noreturn]] void refuse(const std::string& why) const { throw DataError(name_ + " is a damaged BMP: " + why); }
  [[noreturn]] void refuse_kind(const std::string& kind) const {
    throw DataError(name_ + " is a BMP " + kind +
                    "; only plain, RLE and masked ones of 1, 4, 8, 16, 24 and 32 bits are read: convert it first");
  }

 private:
  std::span<const std::byte> file_;
  const std::string& name_;
};

void read_masks(const BmpFile& file, BmpHeader& header) {
  const bool given = header.compression == kMasks || header.compression == kAlphaMasks;
  const std::array<uint32_t, 3> usual = header.depth == 16 ? std::array<uint32_t, 3>{0x7C00, 0x03E0, 0x001F}
                                                           : std::array<uint32_t, 3>{0xFF0000, 0x00FF00, 0x0000FF};
  for (size_t c = 0; c < 3; ++c) {
    header.masks[c].bits = given ? file.u32(kFileHeader + 40 + 4 * c) : usual[c];
    const uint32_t bits = header.masks[c].bits;
    const uint32_t run = bits == 0 ? 0 : bits >> std::countr_zero(bits);
    if ((run & (run + 1)) != 0 || (header.depth == 16 && bits > 0xFFFF))
      file.refuse("a colour mask is not one run of bits");
  }
}

void read_palette(const BmpFile& file, size_t begin, size_t entry_bytes, uint32_t used, BmpHeader& header) {
  size_t entries = size_t{1} << header.depth;
  if (used > 0) entries = std::min<size_t>(entries, used);
  if (header.at == begin) header.at += entries * entry_bytes;  // some writers forget to count their palette
  if (header.at > begin) entries = std::min(entries, (header.at - begin) / entry_bytes);
  for (size_t i = 0; i < entries; ++i) {
    const uint32_t entry = file.number(begin + i * entry_bytes, 3);
    header.palette.push_back(
        {static_cast<uint8_t>(entry >> 16), static_cast<uint8_t>(entry >> 8), static_cast<uint8_t>(entry)});
  }
  const auto grey = [](const Rgb& entry) { return entry[0] == entry[1] && entry[1] == entry[2]; };
  header.picture.channels = std::all_of(header.palette.begin(), header.palette.end(), grey) ? 1 : 3;
}

void check_kind(const BmpFile& file, const BmpHeader& header, bool os2) {
  const uint32_t how = header.compression;
  const int depth = header.depth;
  if (os2 && how >= kMasks) file.refuse_kind("compressed in a way that only OS/2 knows");
  if (how == 4 || how == 5) file.refuse_kind(how == 4 ? "that holds a JPEG" : "that holds a PNG");
  if (how > kAlphaMasks) file.refuse("its compression is unknown (" + std::to_string(how) + ")");
  if (std::ranges::count(std::array{1, 4, 8, 16, 24, 32}, depth) == 0)
    file.refuse(std::to_string(depth) + " bits per pixel");
  const bool fits = how == kRle8 ? depth == 8 : how == kRle4 ? depth == 4 : how == kPlain || depth == 16 || depth == 32;
  if (!fits) file.refuse("its compression does not fit " + std::to_string(depth) + " bits");
}

BmpHeader read_header(const BmpFile& file, const std::string& name, const ImageLimits& limits) {
  BmpHeader header;
  header.at = file.u32(10);
  const size_t size = file.u32(kFileHeader);
  if (std::ranges::count(std::array<size_t, 8>{12, 16, 40, 52, 56, 64, 108, 124}, size) == 0)
    file.refuse("its header is of an unknown kind (" + std::to_string(size) + " bytes)");
  const bool core = size == 12;
  header.picture.width = core ? file.u16(18) : file.i32(18);
  header.picture.height = core ? file.u16(20) : file.i32(22);
  header.top_down = header.picture.height < 0;
  if (header.top_down) header.picture.height = -header.picture.height;
  check_pixels(header.picture, name, limits);
  if (file.u16(core ? 22 : 26) != 1) file.refuse("it has more than one plane");
  header.depth = static_cast<int>(file.u16(core ? 24 : 28));
  if (size >= 40) header.compression = file.u32(30);
  check_kind(file, header, size == 64);
  header.picture.channels = 3;
  header.picture.bits = 8;
  if (header.depth == 16 || header.depth == 32) read_masks(file, header);
  const uint32_t used = size >= 40 ? file.u32(46) : 0;
  if (header.depth <= 8) read_palette(file, kFileHeader + size, core ? 3 : 4, used, header);
  return header;
}

/// Refuses a file that is too short for what its header promises, before any memory is allocated for it.
void check_bmp_length(const BmpFile& file, const BmpHeader& header) {
  const ImageHeader& picture = header.picture;
  const int64_t rest = static_cast<int64_t>(file.file().size()) - static_cast<int64_t>(header.at);
  const int64_t whole_rows = (picture.height - 1) * header.row_bytes() + (picture.width * header.depth + 7) / 8;
  const int64_t needed = header.packed() ? picture.height * picture.width / 255 : whole_rows;
  if (header.at < kFileHeader || rest < needed)
    file.refuse("the file is too short for the picture that its header promises");
}

/// Unpacks RLE4 or RLE8, whose runs begin with two bytes that describe them: palette indices, one byte per pixel, rows
/// in the order stored.
std::vector<uint8_t> unpack_rle(const BmpFile& file, const BmpHeader& header) {
  const int64_t width = header.picture.width;
  const int64_t height = header.picture.height;
  const bool nibbles = header.compression == kRle4;
  std::vector<uint8_t> out(static_cast<size_t>(width * height), 0);
  size_t at = header.at;
  int64_t x = 0;
  int64_t y = 0;
  const auto next = [&] {
    if (at >= file.file().size()) file.refuse("the file ends too early");
    return *file.bytes(at++);
  };
  const auto put = [&](int value) {  // encoders may pad a run beyond the end of its row
    if (x < width) out[static_cast<size_t>(y * width + x++)] = static_cast<uint8_t>(value);
  };
  while (y < height) {
    const int count = next();
    const int code = next();
    if (count > 0) {
      for (int i = 0; i < count; ++i) put(!nibbles ? code : i % 2 == 0 ? code >> 4 : code & 15);
    } else if (code == 0) {
      x = 0;
      ++y;
    } else if (code == 1) {
      break;
    } else if (code == 2) {
      x += next();
      y += next();
      if (x > width || y >= height) file.refuse("a jump leads out of the picture");
    } else {
      int byte = 0;
      for (int i = 0; i < code; ++i) {
        if (!nibbles || i % 2 == 0) byte = next();
        put(!nibbles ? byte : i % 2 == 0 ? byte >> 4 : byte & 15);
      }
      const int stored = nibbles ? (code + 1) / 2 : code;
      if (stored % 2 == 1) next();
    }
  }
  return out;
}

void place_entry(const BmpFile& file, const BmpHeader& header, size_t entry, uint8_t*& out) {
  if (entry >= header.palette.size()) file.refuse("a pixel names a colour beyond the palette");
  for (int64_t c = 0; c < header.picture.channels; ++c) *out++ = header.palette[entry][static_cast<size_t>(c)];
}

void place_row(const BmpFile& file, const BmpHeader& header, const uint8_t* row, uint8_t* out) {
  for (int64_t x = 0; x < header.picture.width; ++x) {
    if (header.depth <= 8) {
      const int64_t bit = x * header.depth;
      const int shift = 8 - header.depth - static_cast<int>(bit % 8);
      place_entry(file, header, static_cast<size_t>(row[bit / 8] >> shift & ((1 << header.depth) - 1)), out);
    } else if (header.depth == 24) {
      for (int64_t c = 0; c < 3; ++c) *out++ = row[3 * x + 2 - c];
    } else {
      uint32_t pixel = 0;
      const int64_t bytes = header.depth / 8;
      for (int64_t i = bytes; i > 0; --i) pixel = pixel << 8 | row[x * bytes + i - 1];
      for (const Mask& mask : header.masks) *out++ = mask.value(pixel);
    }
  }
}

ImageHeader read_bmp_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  return read_header(BmpFile(file, name), name, limits).picture;
}

Image decode_bmp(std::span<const std::byte> bytes, const std::string& name, const ImageLimits& limits) {
  const BmpFile file(bytes, name);
  const BmpHeader header = read_header(file, name, limits);
  check_bmp_length(file, header);
  const ImageHeader& picture = header.picture;
  Image image = allocate_image(picture);
  std::vector<uint8_t> unpacked;
  if (header.packed()) unpacked = unpack_rle(file, header);
  for (int64_t y = 0; y < picture.height; ++y) {
    const int64_t stored = header.top_down ? y : picture.height - 1 - y;
    uint8_t* out = image.bytes.data() + y * picture.width * picture.channels;
    if (header.packed()) {
      for (int64_t x = 0; x < picture.width; ++x)
        place_entry(file, header, unpacked[static_cast<size_t>(stored * picture.width + x)], out);
    } else {
      place_row(file, header, file.bytes(header.at + static_cast<size_t>(stored * header.row_bytes())), out);
    }
  }
  return image;
}

}  // namespace

/// Windows and OS/2 bitmaps of 1, 4, 8, 16, 24 and 32 bits, with colour masks, RLE4, RLE8, top-down and bottom-up.
extern const PictureFormat kBmp = {
    .name = "BMP",
    .endings = {".bmp"},
    .begins = [](std::string_view bytes) { return bytes.starts_with("BM"); },
    .decode = decode_bmp,
    .read_header = read_bmp_header,
};

}  // namespace dtrain
