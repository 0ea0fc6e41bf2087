// BMP files are put together byte by byte, by the format's description.
#include "dtrain/base/error.hpp"
#include "dtrain/io/pictures/image.hpp"
#include "picture_damage.hpp"
#include "support/catch.hpp"
#include "temp_folder.hpp"

using namespace dtrain;
using dtrain::test::error_of;
using test::bytes_of;

namespace {

constexpr int kColumns = 5;
constexpr int kRows = 3;

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i);
}

struct BmpKind {
  int depth = 24;
  bool top_down = false;
  int header = 40;  // bytes
  uint32_t compression = 0;
  std::vector<uint32_t> masks = {};  // red, green, blue
  bool grey = false;                 // the palette
  int32_t width = kColumns;
  int32_t height = kRows;
};

/// Every pixel's value below 2^depth: an index into the palette, or the pixel itself.
uint32_t pixel_at(int x, int y, int depth) {
  const uint32_t mixed = static_cast<uint32_t>(x) * 2654435761u + static_cast<uint32_t>(y) * 40503u * 977u + 17u;
  return depth == 32 ? mixed : mixed >> 3 & ((1u << depth) - 1);
}

/// Blue, green and red of an entry of the palette.
std::vector<uint8_t> entry_at(uint32_t number, bool grey) {
  const auto blue = static_cast<uint8_t>(number * 40 + 3);
  if (grey) return {blue, blue, blue};
  return {blue, static_cast<uint8_t>(255 - number), static_cast<uint8_t>(number * 7)};
}

/// `raster` as it is, or rows of pixel_at().
std::string bmp_of(const BmpKind& kind, const std::string& raster = "") {
  std::string rest;
  put(rest, static_cast<uint64_t>(kind.header), 4);
  const int32_t height = kind.top_down ? -kind.height : kind.height;
  const int size_bytes = kind.header == 12 ? 2 : 4;
  put(rest, static_cast<uint32_t>(kind.width), size_bytes);
  put(rest, static_cast<uint32_t>(height), size_bytes);
  put(rest, 1, 2);
  put(rest, static_cast<uint64_t>(kind.depth), 2);
  if (kind.header >= 40) {
    put(rest, kind.compression, 4);
    rest.append(20, '\0');
  }
  for (const uint32_t mask : kind.masks) put(rest, mask, 4);
  while (static_cast<int>(rest.size()) < kind.header) rest += '\0';
  if (kind.depth <= 8)
    for (uint32_t i = 0; i < 1u << kind.depth; ++i) {
      for (const uint8_t part : entry_at(i, kind.grey)) rest += static_cast<char>(part);
      if (kind.header > 12) rest += '\0';
    }
  const size_t offset = 14 + rest.size();
  if (raster.empty()) {
    for (int row = 0; row < kind.height; ++row) {
      const int y = kind.top_down ? row : kind.height - 1 - row;
      const size_t begin = rest.size();
      for (int x = 0; x < kind.width; ++x) {
        const uint32_t pixel = pixel_at(x, y, kind.depth);
        if (kind.depth >= 8) put(rest, pixel, kind.depth / 8);
        if (kind.depth < 8) {
          const int bit = x * kind.depth;
          if (bit % 8 == 0) rest += '\0';
          rest.back() = static_cast<char>(rest.back() | static_cast<int>(pixel) << (8 - kind.depth - bit % 8));
        }
      }
      while ((rest.size() - begin) % 4 != 0) rest += '\0';
    }
  }
  rest += raster;
  std::string file = "BM";
  put(file, 14 + rest.size(), 4);
  put(file, 0, 4);
  put(file, offset, 4);
  return file + rest;
}

std::string bmp_refusal(const std::string& file) {
  return error_of<DataError>([&] { decode_image(bytes_of(file), "t.bmp"); });
}

uint8_t masked(uint32_t pixel, uint32_t mask) {
  int shift = 0;
  while ((mask >> shift & 1) == 0) ++shift;
  return static_cast<uint8_t>(uint64_t{(pixel & mask) >> shift} * 255 / (mask >> shift));
}

std::vector<uint8_t> expected(const BmpKind& kind) {
  std::vector<uint32_t> masks = kind.masks;
  if (masks.empty())
    masks =
        kind.depth == 16 ? std::vector<uint32_t>{0x7C00, 0x3E0, 0x1F} : std::vector<uint32_t>{0xFF0000, 0xFF00, 0xFF};
  std::vector<uint8_t> out;
  for (int y = 0; y < kind.height; ++y)
    for (int x = 0; x < kind.width; ++x) {
      const uint32_t pixel = pixel_at(x, y, kind.depth);
      if (kind.depth <= 8) {
        const std::vector<uint8_t> entry = entry_at(pixel, kind.grey);
        out.push_back(entry[2]);
        if (!kind.grey) out.insert(out.end(), {entry[1], entry[0]});
      } else {
        for (const uint32_t mask : masks) out.push_back(masked(pixel, mask));
      }
    }
  return out;
}

}  // namespace

TEST_CASE("BMP of every depth, header and direction gives the pixels that were stored") {
  std::vector<BmpKind> kinds;
  for (int depth : {1, 4, 8, 16, 24, 32})
    for (int header : {12, 16, 40, 52, 56, 64, 108, 124})
      for (bool top_down : {false, true})
        for (bool grey : {false, true}) {
          if (header == 12 && top_down) continue;  // its height has no sign
          kinds.push_back({depth, top_down, header, 0, {}, grey});
        }
  kinds.push_back({16, false, 40, 3, {0xF800, 0x07E0, 0x001F}});
  kinds.push_back({16, true, 56, 3, {0x000F, 0x00F0, 0x0F00}});
  kinds.push_back({32, false, 40, 3, {0xFF, 0xFF00, 0xFF0000}});
  kinds.push_back({32, false, 124, 3, {0x3FF00000, 0x000FFC00, 0x000003FF}});
  for (const BmpKind& kind : kinds) {
    INFO("depth " << kind.depth << ", header " << kind.header << ", top-down " << kind.top_down);
    const std::string file = bmp_of(kind);
    const Image image = decode_image(bytes_of(file), "t.bmp");
    const ImageHeader header = read_image_header(bytes_of(file), "t.bmp");
    CHECK((image.width == kColumns && image.height == kRows && image.bits == 8));
    CHECK(image.channels == (kind.grey && kind.depth <= 8 ? 1 : 3));
    CHECK((header.width == kColumns && header.height == kRows && header.channels == image.channels));
    CHECK(image.bytes == expected(kind));
  }
}

TEST_CASE("RLE8 and RLE4: runs, plain stretches, jumps, ends of rows") {
  using namespace std::string_literals;
  BmpKind kind{8, false, 40, 1, {}, true};
  const auto value = [](uint32_t number) { return entry_at(number, true)[0]; };
  // from the bottom: 5 times 1; three plain pixels and a run of two; a jump by two, a run cut at the end of its row
  const std::string rle8 = "\x05\x01\0\0\0\x03\x02\x03\x04\0\x02\x05\0\0\0\x02\x02\0\x09\x06\0\x01"s;
  std::vector<uint8_t> pixels;
  for (uint32_t number : {0, 0, 6, 6, 6, 2, 3, 4, 5, 5, 1, 1, 1, 1, 1}) pixels.push_back(value(number));
  CHECK(decode_image(bytes_of(bmp_of(kind, rle8)), "t.bmp").bytes == pixels);
  kind.depth = 4;
  kind.compression = 2;
  const std::string rle4 = "\x05\x12\0\0\0\x05\x12\x34\x50\0\0\0\x04\x77\0\x01"s;
  pixels.clear();
  for (uint32_t number : {7, 7, 7, 7, 0, 1, 2, 3, 4, 5, 1, 2, 1, 2, 1}) pixels.push_back(value(number));
  CHECK(decode_image(bytes_of(bmp_of(kind, rle4)), "t.bmp").bytes == pixels);
  CHECK(bmp_refusal(bmp_of(kind, "\x05\x12\0\0"s)).find("ends too early") != std::string::npos);
  CHECK(bmp_refusal(bmp_of(kind, "\0\x02\x06\0\0\x01"s)).find("a jump leads out") != std::string::npos);
  kind.depth = 8;
  CHECK(bmp_refusal(bmp_of(kind, rle4)).find("does not fit 8 bits") != std::string::npos);
}

TEST_CASE("what is wrong in a BMP is told") {
  const auto patched = [](BmpKind kind, size_t at, uint64_t value, int bytes) {
    std::string file = bmp_of(kind), part;
    put(part, value, bytes);
    return file.replace(at, part.size(), part);
  };
  const std::pair<std::string, const char*> cases[] = {
      {patched({}, 14, 41, 4), "unknown kind (41 bytes)"},
      {patched({}, 26, 3, 2), "more than one plane"},
      {patched({}, 28, 7, 2), "7 bits per pixel"},
      {patched({}, 30, 5, 4), "that holds a PNG"},
      {patched({}, 30, 9, 4), "compression is unknown (9)"},
      {patched({}, 18, 0, 4), "holds nothing"},
      {patched({}, 18, 0xFFFFFFFF, 4), "holds nothing"},
      {patched({}, 22, 0x80000000, 4), "allowed"},
      {patched({}, 10, 5, 4), "too short for the picture"},
      {patched({}, 10, 0xFFFFFFF0, 4), "too short for the picture"},
      {patched({8, false, 40}, 46, 2, 4), "beyond the palette"},
      {bmp_of({16, false, 40, 3, {0xF0F0, 0x0E00, 0xF}}), "one run of bits"},
      {bmp_of({}).substr(0, 30), "the header ends too early"},
  };
  for (const auto& [file, part] : cases) {
    const std::string sentence = bmp_refusal(file);
    INFO(part << " is looked for in: " << sentence);
    CHECK(sentence.starts_with("t.bmp"));
    CHECK(sentence.find(part) != std::string::npos);
  }
}

TEST_CASE("a small BMP that promises a huge picture is refused before memory is taken") {
  const dtrain::test::MemoryWatch memory;
  for (int depth : {1, 4, 8, 16, 24, 32})
    CHECK(bmp_refusal(bmp_of({depth, false, 40, 0, {}, false, 16000, 16000}, "abc")).find("too short") !=
          std::string::npos);
  CHECK(bmp_refusal(bmp_of({8, false, 40, 1, {}, false, 16000, 16000}, "abc")).find("too short") != std::string::npos);
  CHECK(bmp_refusal(bmp_of({24, false, 40, 0, {}, false, 60000, 60000}, "abc")).find("allowed") != std::string::npos);
  CHECK(memory.grown_mb() < 20);
}

TEST_CASE("a BMP cut anywhere or with a byte changed is refused or still a picture of its size") {
  using namespace std::string_literals;
  for (const BmpKind& kind : {BmpKind{24}, BmpKind{4, true}, BmpKind{16, false, 40, 3, {0xF800, 0x07E0, 0x001F}}})
    dtrain::test::check_damaged(bmp_of(kind), "t.bmp");
  dtrain::test::check_damaged(
      bmp_of({8, false, 40, 1}, "\x05\x01\0\0\0\x03\x02\x03\x04\0\x02\x05\0\0\0\x02\x02\0\x09\x06\0\x01"s), "t.bmp");
}
