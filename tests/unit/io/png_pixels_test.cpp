// Our own decoding of PNG pixels compared with plain libpng: every kind and size of picture, and damaged files with
// correct checksums. DTRAIN_PNG_DAMAGES sets the number of damaged files.
#include "dtrain/io/pictures/png_pixels.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>

#include "dtrain/base/error.hpp"
#include "dtrain/io/pictures/image.hpp"
#include "dtrain/io/pictures/png_filters.hpp"
#include "made_png.hpp"
#include "plain_libpng.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

using File = std::vector<std::byte>;

std::optional<std::vector<uint8_t>> by_dtrain(std::span<const std::byte> file) {
  try {
    const Image image = decode_image(file, "t.png", ImageLimits{1 << 22});
    const auto bytes = std::as_bytes(std::span(image.words));
    std::vector<uint8_t> samples = image.bytes;
    for (const std::byte byte : bytes) samples.push_back(std::to_integer<uint8_t>(byte));
    return samples;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

// --- chunks

struct Chunk {
  std::string type;
  File data;
};

void append(File& file, std::span<const std::byte> bytes) { file.insert(file.end(), bytes.begin(), bytes.end()); }

void append_number(File& file, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) file.push_back(static_cast<std::byte>(value >> shift));
}

constexpr size_t kSignature = 8;

std::vector<Chunk> chunks_of(const File& file) {
  std::vector<Chunk> chunks;
  for (size_t at = kSignature; at < file.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | std::to_integer<size_t>(file[at + i]);
    const auto* type = reinterpret_cast<const char*>(file.data() + at + 4);
    const auto data = std::span(file).subspan(at + 8, length);
    chunks.push_back({std::string(type, 4), {data.begin(), data.end()}});
    at += 12 + length;
  }
  return chunks;
}

/// Joins chunks, with correct lengths and checksums.
File file_of(const std::vector<Chunk>& chunks) {
  File file;
  append(file, std::as_bytes(std::span("\x89PNG\r\n\x1A\n", kSignature)));
  for (const Chunk& chunk : chunks) {
    append_number(file, static_cast<uint32_t>(chunk.data.size()));
    append(file, std::as_bytes(std::span(chunk.type)));
    append(file, chunk.data);
    const auto* checked = reinterpret_cast<const Bytef*>(file.data() + file.size() - chunk.data.size() - 4);
    append_number(file, static_cast<uint32_t>(crc32(0, checked, static_cast<uInt>(chunk.data.size() + 4))));
  }
  return file;
}

std::span<const std::byte> from_pixels(const File& file) {
  const auto mark = std::as_bytes(std::span("IDAT", 4));
  const auto at = std::search(file.begin(), file.end(), mark.begin(), mark.end());
  return std::span(file).subspan(static_cast<size_t>(at - file.begin()) - 4);
}

File unpacked(const std::vector<Chunk>& chunks) {
  File packed, data(1 << 20);
  for (const Chunk& chunk : chunks)
    if (chunk.type == "IDAT") append(packed, chunk.data);
  uLongf size = data.size();
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(data.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                     packed.size()) == Z_OK);
  data.resize(size);
  return data;
}

File packed(const File& data, int level, int window_bits, int strategy) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, level, Z_DEFLATED, window_bits, 8, strategy) == Z_OK);
  File out(deflateBound(&stream, data.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// Replaces the IDAT chunks by `stream`, cut into `pieces`, some of which may be empty.
void replace_pixels(std::vector<Chunk>& chunks, const File& stream, size_t pieces, std::mt19937& random) {
  const auto is_pixels = [](const Chunk& chunk) { return chunk.type == "IDAT"; };
  auto at = std::find_if(chunks.begin(), chunks.end(), is_pixels) - chunks.begin();
  std::erase_if(chunks, is_pixels);
  std::vector<size_t> cuts = {0, stream.size()};
  while (cuts.size() <= pieces) cuts.push_back(random() % (stream.size() + 1));
  std::sort(cuts.begin(), cuts.end());
  for (size_t i = 0; i < pieces; ++i)
    chunks.insert(chunks.begin() + at++,
                  Chunk{"IDAT", File(stream.begin() + static_cast<std::ptrdiff_t>(cuts[i]),
                                     stream.begin() + static_cast<std::ptrdiff_t>(cuts[i + 1]))});
}

// --- kinds

constexpr std::array<std::pair<int, int>, 15> kTypes = {{{PNG_COLOR_TYPE_GRAY, 1},
                                                         {PNG_COLOR_TYPE_GRAY, 2},
                                                         {PNG_COLOR_TYPE_GRAY, 4},
                                                         {PNG_COLOR_TYPE_GRAY, 8},
                                                         {PNG_COLOR_TYPE_GRAY, 16},
                                                         {PNG_COLOR_TYPE_PALETTE, 1},
                                                         {PNG_COLOR_TYPE_PALETTE, 2},
                                                         {PNG_COLOR_TYPE_PALETTE, 4},
                                                         {PNG_COLOR_TYPE_PALETTE, 8},
                                                         {PNG_COLOR_TYPE_RGB, 8},
                                                         {PNG_COLOR_TYPE_RGB, 16},
                                                         {PNG_COLOR_TYPE_GRAY_ALPHA, 8},
                                                         {PNG_COLOR_TYPE_GRAY_ALPHA, 16},
                                                         {PNG_COLOR_TYPE_RGB_ALPHA, 8},
                                                         {PNG_COLOR_TYPE_RGB_ALPHA, 16}}};
constexpr std::array<int, 6> kFilters = {PNG_FILTER_NONE, PNG_FILTER_SUB,   PNG_FILTER_UP,
                                         PNG_FILTER_AVG,  PNG_FILTER_PAETH, PNG_ALL_FILTERS};

PngLayout layout_of(const PngKind& kind) {
  PngLayout layout{kind.height, kind.width, samples_per_pixel(kind.color_type), kind.depth};
  layout.palette = kind.color_type == PNG_COLOR_TYPE_PALETTE;
  if (!layout.palette) return layout;
  layout.colour_count = 1 << kind.depth;
  for (uint32_t i = 0; i < layout.colour_count; ++i) {
    const png_color colour = palette_entry(i);
    layout.colours[i] = {colour.red, colour.green, colour.blue};
  }
  return layout;
}

/// What decode_png_pixels() makes of the file; none if it leaves the file to libpng.
std::optional<std::vector<uint8_t>> quickly(const File& file, const PngKind& kind) {
  const ImageHeader header = read_image_header(file, "t.png");
  Image image{header.height, header.width, header.channels, header.bits, {}, {}};
  const auto samples = static_cast<size_t>(header.height * header.width * header.channels);
  image.bytes.resize(header.bits == 8 ? samples : 0);
  image.words.resize(header.bits == 16 ? samples : 0);
  if (!decode_png_pixels(from_pixels(file), layout_of(kind), image)) return std::nullopt;
  const auto words = std::as_bytes(std::span(image.words));
  std::vector<uint8_t> bytes = image.bytes;
  for (const std::byte byte : words) bytes.push_back(std::to_integer<uint8_t>(byte));
  return bytes;
}

std::string text_of(const PngKind& kind) {
  return "colour type " + std::to_string(kind.color_type) + ", depth " + std::to_string(kind.depth) + ", filters " +
         std::to_string(kind.filters) + ", " + std::to_string(kind.width) + " x " + std::to_string(kind.height);
}

}  // namespace

TEST_CASE("filters are undone as PNG defines them, for every pixel size, width and number of rows") {
  std::mt19937 random(11);
  const auto paeth = [](int a, int b, int c) {
    const int p = a + b - c, pa = std::abs(p - a), pb = std::abs(p - b), pc = std::abs(p - c);
    return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
  };
  for (const int pixel_bytes : {1, 2, 3, 4, 6, 8})
    for (int64_t width = 1; width <= 67; ++width)
      for (const int64_t rows : {1, 2, 14, 15, 16, 31}) {
        const int64_t row_bytes = width * pixel_bytes;
        const unsigned range = random() % 2 == 0 ? 256 : 4;  // few values: ties between the neighbours
        std::vector<uint8_t> filtered(static_cast<size_t>(rows * (row_bytes + 1)));
        std::vector<uint8_t> wanted(static_cast<size_t>(rows * row_bytes));
        for (uint8_t& byte : filtered) byte = static_cast<uint8_t>(random() % range);
        const auto at = [&](int64_t y, int64_t x) {
          return y < 0 || x < 0 ? 0 : int{wanted[static_cast<size_t>(y * row_bytes + x)]};
        };
        for (int64_t y = 0; y < rows; ++y) {
          uint8_t* row = filtered.data() + y * (row_bytes + 1);
          *row = static_cast<uint8_t>(random() % 5);
          for (int64_t x = 0; x < row_bytes; ++x) {
            const int left = at(y, x - pixel_bytes), above = at(y - 1, x), corner = at(y - 1, x - pixel_bytes);
            const std::array<int, 5> guesses = {0, left, above, (left + above) / 2, paeth(left, above, corner)};
            wanted[static_cast<size_t>(y * row_bytes + x)] = static_cast<uint8_t>(row[1 + x] + guesses[*row]);
          }
        }
        INFO(pixel_bytes << " bytes a pixel, " << width << " x " << rows);
        std::vector<uint8_t> got = filtered;
        REQUIRE(undo_png_filters(got.data(), rows, row_bytes, pixel_bytes));
        int64_t wrong = 0;
        for (int64_t y = 0; y < rows; ++y)
          for (int64_t x = 0; x < row_bytes; ++x)
            wrong += got[static_cast<size_t>(y * (row_bytes + 1) + 1 + x)] != at(y, x);
        REQUIRE(wrong == 0);
        filtered[static_cast<size_t>((row_bytes + 1) * (rows - 1))] = static_cast<uint8_t>(5 + random() % 251);
        REQUIRE_FALSE(undo_png_filters(filtered.data(), rows, row_bytes, pixel_bytes));
      }
}

TEST_CASE("the own PNG decoder takes every plain picture and gives libpng's samples") {
  for (const auto& [type, depth] : kTypes)
    for (const int filters : kFilters)
      for (uint32_t width = 1; width <= 67; ++width) {
        const PngKind kind{type,
                           depth,
                           false,
                           width % 5 == 0 && (type & PNG_COLOR_MASK_ALPHA) == 0,
                           filters,
                           width,
                           1 + width * 7 % 37};
        INFO(text_of(kind));
        const File file = make_png(kind);
        const auto expected = by_libpng(file);
        REQUIRE(expected);
        REQUIRE(quickly(file, kind) == expected);
        REQUIRE(by_dtrain(file) == expected);
      }
}

TEST_CASE("PNGs of any compression and cut into any chunks are decoded as by libpng") {
  std::mt19937 random(3);
  const auto below = [&random](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  for (int i = 0; i < 600; ++i) {
    const auto [type, depth] = kTypes[random() % kTypes.size()];
    const PngKind kind{type, depth, false, false, kFilters[random() % 6], 1 + below(300), 1 + below(200)};
    std::vector<Chunk> chunks = chunks_of(make_png(kind));
    const int window_bits = 9 + static_cast<int>(random() % 7);
    const int strategy = std::array{Z_DEFAULT_STRATEGY, Z_FILTERED, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED}[random() % 5];
    replace_pixels(chunks, packed(unpacked(chunks), static_cast<int>(random() % 10), window_bits, strategy),
                   1 + random() % 9, random);
    const File file = file_of(chunks);
    INFO(text_of(kind) << ", case " << i);
    const auto expected = by_libpng(file);
    REQUIRE(expected);
    REQUIRE(by_dtrain(file) == expected);
    if (window_bits == 15) REQUIRE(quickly(file, kind) == expected);
  }
}

namespace {

/// Changes something of the picture, with correct chunk checksums.
void damage(std::vector<Chunk>& chunks, std::mt19937& random) {
  Chunk& any = chunks[random() % chunks.size()];
  const size_t place = random() % (chunks.size() + 1);
  switch (random() % 9) {
    case 0:
    case 1:  // bytes of a chunk: of the header, the palette, the compressed stream
      for (unsigned k = 0; k <= random() % 3 && !any.data.empty(); ++k)
        any.data[random() % any.data.size()] = static_cast<std::byte>(random());
      return;
    case 2: {  // filtered bytes, filters among them, under a right Adler checksum
      File data = unpacked(chunks);
      for (unsigned k = 0; k <= random() % 4; ++k)
        data[random() % data.size()] = static_cast<std::byte>(random() % 2 == 0 ? random() % 7 : random());
      return replace_pixels(chunks, packed(data, 6, 15, Z_DEFAULT_STRATEGY), 1 + random() % 3, random);
    }
    case 3: {  // too many or too few of them
      File data = unpacked(chunks);
      data.resize(random() % 2 == 0 ? data.size() - 1 - random() % data.size() : data.size() + 1 + random() % 5);
      return replace_pixels(chunks, packed(data, 6, 15, Z_DEFAULT_STRATEGY), 1 + random() % 3, random);
    }
    case 4:  // bytes behind the compressed stream, or missing at its end
      for (Chunk& chunk : chunks)
        if (chunk.type == "IDAT") chunk.data.resize(chunk.data.size() * (100 - random() % 20) / 90);
      return;
    case 5:
      any.type[random() % 4] = static_cast<char>(random() % 2 == 0 ? random() : 'a' + random() % 26);
      return;
    case 6: {
      const char* types[] = {"IDAT", "tEXt", "zzZz", "ZZZZ", "PLTE", "tRNS", "IEND", "tIME", "acTL"};
      chunks.insert(chunks.begin() + static_cast<std::ptrdiff_t>(place),
                    Chunk{types[random() % 9], File(random() % 8)});
      return;
    }
    case 7:
      chunks.erase(chunks.begin() + static_cast<std::ptrdiff_t>(place % chunks.size()));
      return;
    default:
      std::swap(chunks[place % chunks.size()], any);
  }
}

}  // namespace

TEST_CASE("a damaged PNG is taken or refused as by libpng, and if taken has the same samples") {
  const char* count = std::getenv("DTRAIN_PNG_DAMAGES");
  std::mt19937 random(17);
  const auto below = [&random](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  int taken = 0, refused = 0;
  for (int i = 0; i < (count == nullptr ? 3000 : std::atoi(count)); ++i) {
    const auto [type, depth] = kTypes[random() % kTypes.size()];
    const PngKind kind{type, depth, random() % 8 == 0, false, kFilters[random() % 6], 1 + below(40), 1 + below(40)};
    std::vector<Chunk> chunks = chunks_of(make_png(kind));
    if (random() % 2 == 0 && !kind.interlaced)
      replace_pixels(chunks, packed(unpacked(chunks), 9, 15, Z_DEFAULT_STRATEGY), 1 + random() % 5, random);
    damage(chunks, random);
    const File file = file_of(chunks);
    INFO(text_of(kind) << ", case " << i);
    const auto expected = by_libpng(file);
    REQUIRE(by_dtrain(file) == expected);
    (expected ? taken : refused) += 1;
  }
  INFO(taken << " taken, " << refused << " refused");
  CHECK(taken > 0);
  CHECK(refused > taken / 10);
}

TEST_CASE("every PNG of a folder of odd ones is decoded as by libpng") {
  const char* base = std::getenv("DTRAIN_TEST_DATA");
  const std::string folder = base == nullptr ? "" : std::string(base) + "/pngsuite";
  if (!std::filesystem::is_directory(folder)) return skip("DTRAIN_TEST_DATA names no folder with pngsuite");
  int taken = 0, refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".png") continue;
    INFO(entry.path());
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const auto expected = by_libpng(std::as_bytes(std::span(text)));
    CHECK(by_dtrain(std::as_bytes(std::span(text))) == expected);
    (expected ? taken : refused) += 1;
  }
  CHECK(taken >= 160);
  CHECK(refused == 14);
}
