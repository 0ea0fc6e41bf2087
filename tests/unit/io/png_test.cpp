// PNG of every colour type and depth, made here through libpng's own writer, decoded and compared sample by sample;
// then damaged in every way.
#include <png.h>

#include <cstring>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/io/pictures/image.hpp"
#include "made_png.hpp"
#include "support/catch.hpp"
#include "temp_folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

/// What decode_image() promises for channel `c` of a pixel.
uint32_t expected_sample(const PngKind& kind, uint32_t x, uint32_t y, int c) {
  if (kind.color_type == PNG_COLOR_TYPE_PALETTE) {
    const png_color color = palette_entry(sample_at(kind, x, y, 0));
    return c == 0 ? color.red : c == 1 ? color.green : color.blue;
  }
  const uint32_t value = sample_at(kind, x, y, c);
  return kind.depth < 8 ? value * 255 / ((1u << kind.depth) - 1) : value;
}

void check_decoded(const PngKind& kind) {
  INFO("colour type " << kind.color_type << ", depth " << kind.depth << ", interlaced " << kind.interlaced << ", tRNS "
                      << kind.transparency << ", filters " << kind.filters);
  const auto file = make_png(kind);
  const Image image = decode_image(file, "t.png");
  const ImageHeader header = read_image_header(file, "t.png");
  const int channels = (kind.color_type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
  REQUIRE(image.width == kind.width);
  REQUIRE(image.height == kind.height);
  REQUIRE(image.channels == channels);
  REQUIRE(image.bits == (kind.depth == 16 ? 16 : 8));
  CHECK((header.width == image.width && header.height == image.height && header.channels == image.channels &&
         header.bits == image.bits));
  REQUIRE((kind.depth == 16 ? image.words.size() : image.bytes.size()) ==
          size_t{kind.width} * kind.height * static_cast<size_t>(channels));
  CHECK((kind.depth == 16 ? image.bytes.empty() : image.words.empty()));
  int wrong = 0;
  size_t at = 0;
  for (uint32_t y = 0; y < kind.height; ++y)
    for (uint32_t x = 0; x < kind.width; ++x)
      for (int c = 0; c < channels; ++c, ++at)
        wrong += (kind.depth == 16 ? image.words[at] : image.bytes[at]) != expected_sample(kind, x, y, c);
  CHECK(wrong == 0);
}

std::vector<std::byte> grey_png(int64_t height, int64_t width) {
  Image image{height, width, 1, 8, std::vector<uint8_t>(static_cast<size_t>(height * width), 7), {}};
  return encode_png(image);
}

void put_big_endian(std::vector<std::byte>& file, size_t at, uint32_t value) {
  for (int i = 0; i < 4; ++i) file[at + static_cast<size_t>(i)] = static_cast<std::byte>(value >> (24 - 8 * i));
}

/// Rewrites width and height in IHDR, and corrects the chunk's checksum.
void set_size(std::vector<std::byte>& file, uint32_t width, uint32_t height) {
  put_big_endian(file, 16, width);
  put_big_endian(file, 20, height);
  uint32_t crc = ~0u;
  for (size_t i = 12; i < 29; ++i) {
    crc ^= std::to_integer<uint32_t>(file[i]);
    for (int b = 0; b < 8; ++b) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  put_big_endian(file, 29, ~crc);
}

}  // namespace

TEST_CASE("PNG of every colour type, depth, interlacing and transparency gives the samples that were stored") {
  const std::vector<std::pair<int, std::vector<int>>> types = {{PNG_COLOR_TYPE_GRAY, {1, 2, 4, 8, 16}},
                                                               {PNG_COLOR_TYPE_PALETTE, {1, 2, 4, 8}},
                                                               {PNG_COLOR_TYPE_RGB, {8, 16}},
                                                               {PNG_COLOR_TYPE_GRAY_ALPHA, {8, 16}},
                                                               {PNG_COLOR_TYPE_RGB_ALPHA, {8, 16}}};
  for (const auto& [type, depths] : types)
    for (int depth : depths)
      for (bool interlaced : {false, true})
        for (bool transparency : {false, true}) {
          if (transparency && (type & PNG_COLOR_MASK_ALPHA) != 0) continue;
          check_decoded({type, depth, interlaced, transparency});
        }
}

TEST_CASE("as a mask a PNG with a coloured palette gives its indices, whatever its depth") {
  for (int depth : {1, 2, 4, 8})
    for (bool interlaced : {false, true})
      for (bool transparency : {false, true}) {
        const PngKind kind{PNG_COLOR_TYPE_PALETTE, depth, interlaced, transparency};
        const auto file = make_png(kind);
        const Image mask = decode_mask_image(file, "t.png");
        CHECK((mask.channels == 1 && mask.bits == 8 && mask.height == kind.height && mask.width == kind.width));
        std::vector<uint8_t> indices;
        for (uint32_t y = 0; y < kind.height; ++y)
          for (uint32_t x = 0; x < kind.width; ++x) indices.push_back(static_cast<uint8_t>(sample_at(kind, x, y, 0)));
        CHECK(mask.bytes == indices);
        CHECK(decode_image(file, "t.png").channels == 3);
      }
}

TEST_CASE("as a mask a grey or coloured PNG, or one with a palette of greys, is the picture that it is") {
  for (int type : {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB}) {
    const auto file = make_png({type, 8});
    CHECK(decode_mask_image(file, "t.png").bytes == decode_image(file, "t.png").bytes);
  }
  const PngKind kind{.color_type = PNG_COLOR_TYPE_PALETTE, .depth = 2, .grey_palette = true};
  const auto file = make_png(kind);
  const Image mask = decode_mask_image(file, "t.png");
  CHECK(mask.bytes == decode_image(file, "t.png").bytes);
  CHECK(mask.bytes[0] == palette_entry(sample_at(kind, 0, 0, 0)).green);
}

TEST_CASE("every PNG filter is undone") {
  for (int filter : {PNG_FILTER_NONE, PNG_FILTER_SUB, PNG_FILTER_UP, PNG_FILTER_AVG, PNG_FILTER_PAETH}) {
    check_decoded({PNG_COLOR_TYPE_RGB, 8, false, false, filter});
    check_decoded({PNG_COLOR_TYPE_GRAY, 16, true, false, filter});
  }
}

TEST_CASE("a picture written as PNG is read back the same") {
  for (int64_t channels : {1, 3})
    for (int64_t width : {1, 2, 7, 300, 70'000})
      for (const int bits : {8, 16}) {
        Image image{5, width, channels, bits, {}, {}};
        KeyedRandom random(7, Purpose::synthetic_data, static_cast<uint64_t>(width));
        for (int64_t i = 0; i < 5 * width * channels; ++i) {
          if (bits == 8) image.bytes.push_back(static_cast<uint8_t>(random.next32()));
          if (bits == 16) image.words.push_back(static_cast<uint16_t>(random.next32()));
        }
        const auto file = encode_png(image);
        for (const Image& back : {decode_image(file, "t.png"), decode_mask_image(file, "t.png")}) {
          CHECK(back.bytes == image.bytes);
          CHECK(back.words == image.words);
          CHECK((back.height == 5 && back.width == width && back.channels == channels && back.bits == bits));
        }
        CHECK(encode_png(image) == file);
      }
}

TEST_CASE("every single flipped bit of a PNG is noticed") {
  for (const PngKind& kind : {PngKind{PNG_COLOR_TYPE_RGB, 8}, PngKind{PNG_COLOR_TYPE_PALETTE, 4, true, true}}) {
    const auto file = make_png(kind);
    int missed = 0;
    for (size_t bit = 0; bit < file.size() * 8; ++bit) {
      auto damaged = file;
      damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      missed += error_of<DataError>([&] { decode_image(damaged, "t.png"); }).find("t.png") != 0;
    }
    CHECK(missed == 0);
  }
}

TEST_CASE("a PNG cut anywhere is refused") {
  for (bool interlaced : {false, true}) {
    const auto file = make_png({PNG_COLOR_TYPE_RGB, 16, interlaced});
    for (size_t length = 0; length < file.size(); ++length) {
      INFO(length);
      CHECK_THROWS_AS(decode_image(std::span(file).first(length), "t.png"), DataError);
    }
  }
}

TEST_CASE("the pixel limit holds from the header on") {
  const auto file = grey_png(30, 40);
  CHECK_NOTHROW(decode_image(file, "t.png", {1200}));
  CHECK(error_of<DataError>([&] {
          decode_image(file, "t.png", {1199});
        }).find("40 × 30 pixels are more than the 1,199") != std::string::npos);
  CHECK_THROWS_AS(read_image_header(file, "t.png", {1199}), DataError);
}

TEST_CASE("a header that promises a giant picture costs nothing") {
  auto file = grey_png(4, 4);
  set_size(file, 4, 5);
  CHECK(error_of<DataError>([&] { decode_image(file, "t.png"); }).find("damaged") != std::string::npos);
  set_size(file, 60'000, 60'000);
  CHECK(error_of<DataError>([&] { decode_image(file, "t.png"); }).find("60,000 × 60,000") != std::string::npos);
  set_size(file, 0x7FFFFFFF, 0x7FFFFFFF);
  CHECK_THROWS_AS(decode_image(file, "t.png"), DataError);
  set_size(file, 16'000, 16'000);
  CHECK(error_of<DataError>([&] { decode_image(file, "t.png"); }).find("too short for the picture") !=
        std::string::npos);
  set_size(file, 0, 4);
  CHECK_THROWS_AS(decode_image(file, "t.png"), DataError);
}
