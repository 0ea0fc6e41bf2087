#include "dtrain/io/pictures/mask_png.hpp"

#include <random>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("a mask is read back with every value as it was, in 8 bits and in 16") {
  std::mt19937 random(3);
  for (const int bits : {8, 16})
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 1}, {3, 70'000}, {65, 33}}) {
      Image mask{height, width, 1, bits, {}, {}};
      for (int64_t i = 0; i < height * width; ++i) {
        if (bits == 8) mask.bytes.push_back(static_cast<uint8_t>(random() & 0xFF));
        if (bits == 16) mask.words.push_back(static_cast<uint16_t>(random() & 0xFFFF));
      }
      const std::vector<std::byte> file = encode_mask_png(mask);
      const Image read = decode_mask_image(file, "mask.png");
      CHECK((read.height == height && read.width == width && read.channels == 1 && read.bits == bits));
      CHECK(read.bytes == mask.bytes);
      CHECK(read.words == mask.words);
      CHECK(encode_mask_png(mask) == file);
    }
  CHECK_THROWS_AS(encode_mask_png({1, 1, 3, 8, {1, 2, 3}, {}}), InternalError);
}
