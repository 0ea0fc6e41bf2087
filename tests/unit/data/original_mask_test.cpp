// From a network's scores for the pixels that it saw to a mask of the picture's size.
#include "dtrain/data/pixels/original_mask.hpp"

#include "dtrain/data/pixels/placement.hpp"
#include "folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

std::vector<float> noise(int64_t count) {
  std::vector<float> values;
  for (const uint8_t value : random_image(1, count, 1, 7).bytes) values.push_back(static_cast<float>(value) / 255);
  return values;
}

}  // namespace

TEST_CASE("probabilities of a picture of the network's own size stay as they are") {
  const std::vector<float> seen = noise(12 * 8);
  for (const Resize resize : {Resize::squash, Resize::pad, Resize::crop})
    CHECK(at_picture_size(seen, 12, 8, plain(12, 8, 1, resize)) == seen);
}

TEST_CASE("what padding added is left out, and no probability of it reaches the picture") {
  std::vector<float> seen(8 * 8, 1.0F);  // 1 in the padding, a quarter where the picture lies: columns 2 to 5
  for (size_t y = 0; y < 8; ++y)
    for (size_t x = 2; x < 6; ++x) seen[8 * y + x] = 0.25F;
  for (const int64_t scale : {1, 3})
    for (const float value : at_picture_size(seen, 8 * scale, 4 * scale, plain(8, 8, 1, Resize::pad)))
      CHECK(value == Approx(0.25F));
}

TEST_CASE("what a crop or a window has not shown the network is 0") {
  const std::vector<float> seen(4 * 4, 1.0F);
  const std::vector<float> cut = at_picture_size(seen, 4, 8, plain(4, 4, 1, Resize::crop));
  ImageOptions options = plain(8, 8, 1);
  options.window_height = options.window_width = 4;
  const std::vector<float> windowed = at_picture_size(seen, 16, 16, options);
  for (size_t y = 0; y < 16; ++y)
    for (size_t x = 0; x < 16; ++x)
      CHECK(windowed[16 * y + x] == Approx((y >= 4 && y < 12 && x >= 4 && x < 12) ? 1.0F : 0.0F));
  for (size_t i = 0; i < cut.size(); ++i) CHECK(cut[i] == ((i % 8 >= 2 && i % 8 < 6) ? 1.0F : 0.0F));
}

// A ramp is its own resize away from the edges, where the filter is cut off; shrunk by a broken factor within a
// thirtieth of a pixel, because so few taps lie unevenly about their centre.
TEST_CASE("enlarged and shrunk, each pixel of the picture gets the probability of the place that it was seen at") {
  constexpr int64_t kSeen = 16;
  std::vector<float> seen;
  for (int64_t i = 0; i < kSeen * kSeen; ++i)
    seen.push_back((static_cast<float>(i % kSeen) + 0.5F) / static_cast<float>(kSeen));
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{40, 56}, {8, 11}, {40, 9}}) {
    const std::vector<float> back = at_picture_size(seen, height, width, plain(kSeen, kSeen, 1));
    REQUIRE(static_cast<int64_t>(back.size()) == height * width);
    const double margin = width >= kSeen ? 1e-5 : 5e-3;
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = width / 4; x < width - width / 4; ++x) {
        const float place = (static_cast<float>(x) + 0.5F) / static_cast<float>(width);
        CHECK(back[static_cast<size_t>(y * width + x)] == Approx(place).margin(margin));
      }
  }
}

TEST_CASE("a mask that the loader made smaller or larger comes back where it was") {
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{48, 64}, {20, 30}})
    for (const Resize resize : {Resize::squash, Resize::pad}) {
      Image mask{height, width, 1, 8, std::vector<uint8_t>(static_cast<size_t>(height * width), 0), {}};
      for (int64_t y = height / 4; y < height / 2; ++y)
        for (int64_t x = width / 2; x < 3 * width / 4; ++x) mask.bytes[static_cast<size_t>(y * width + x)] = 1;
      const ImageOptions options = plain(32, 32, 1, resize);
      std::vector<uint8_t> placed(32 * 32);
      place_mask(mask, options, {}, 1, placed);
      const std::vector<float> back =
          at_picture_size(std::vector<float>(placed.begin(), placed.end()), height, width, options);
      int64_t both = 0, either = 0;
      for (size_t i = 0; i < back.size(); ++i) {
        both += back[i] > 0.5F && mask.bytes[i] == 1 ? 1 : 0;
        either += back[i] > 0.5F || mask.bytes[i] == 1 ? 1 : 0;
      }
      CHECK(static_cast<double>(both) / static_cast<double>(either) > 0.8);
    }
}

TEST_CASE("classes get the pixel values that mask_values gave them, the background one that is none of them") {
  CHECK(pixel_values_of({{255, 1}}, 1) == std::vector<int64_t>{0, 255});
  CHECK(pixel_values_of({{0, 0}, {7, 2}, {9, 1}, {300, 1}, {50, 0}}, 2) == std::vector<int64_t>{0, 9, 7});
  CHECK(pixel_values_of({{0, 1}}, 1) == std::vector<int64_t>{255, 0});
  CHECK(pixel_values_of({{0, 1}, {255, 2}, {1, 3}}, 3) == std::vector<int64_t>{2, 0, 255, 1});
  CHECK(holds(error_of(78, [] { pixel_values_of({{255, 1}}, 2); }), "class 2"));
}

TEST_CASE("a network of some of the classes of a data set gets their values, in its own order") {
  const std::map<int64_t, int64_t> values = {{0, 0}, {10, 1}, {20, 2}, {21, 2}, {30, 3}};
  const std::vector<std::string> told = {"nerve", "vein", "artery"};
  CHECK(pixel_values_of(values, told, {"artery", "vein"}) == std::vector<int64_t>{0, 30, 20});
  CHECK(holds(error_of(78, [&] { pixel_values_of(values, told, {"vein", "bone"}); }), "class 2"));
}

TEST_CASE("a mask has the values of its classes, in 16 bits where one needs them") {
  const std::vector<uint8_t> classes = {0, 2, 1, 1, 0, 0};
  const Image mask = mask_of(classes, 2, 3, {0, 9, 7});
  CHECK((mask.bits == 8 && mask.height == 2 && mask.width == 3));
  CHECK(mask.bytes == std::vector<uint8_t>{0, 7, 9, 9, 0, 0});
  const Image deep = mask_of(classes, 6, 1, {0, 9, 1000});
  CHECK((deep.bits == 16 && deep.height == 6 && deep.width == 1));
  CHECK(deep.words == std::vector<uint16_t>{0, 1000, 9, 9, 0, 0});
}

TEST_CASE("a picture of probabilities has 65535 for 1, rounded to the nearest") {
  const Image picture = probability_picture({0, 1, 0.5F, 1.00001F, 0.25F, -1e-9F}, 2, 3);
  CHECK((picture.bits == 16 && picture.channels == 1 && picture.height == 2 && picture.width == 3));
  CHECK(picture.words == std::vector<uint16_t>{0, 65535, 32768, 65535, 16384, 0});
}
