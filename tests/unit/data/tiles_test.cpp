// Tiles of a picture, and how what is said of them is put together.
#include "dtrain/data/pixels/tiles.hpp"

#include <cmath>

#include "folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

std::vector<int64_t> starts(int64_t length, int64_t tile, double overlap) {
  const Tiling tiling(tile, length, tile, tile, overlap);
  std::vector<int64_t> found;
  for (const Tiling::Tile& one : tiling.tiles()) {
    CHECK(one.top == 0);
    found.push_back(one.left);
  }
  return found;
}

// What a network would say of each tile that tells the pixel's own place in the picture.
std::vector<float> blended(const Tiling& tiling, int64_t height, int64_t width, int64_t tile_height, int64_t tile_width,
                           const std::vector<float>& truth) {
  std::vector<float> sums(static_cast<size_t>(height * width), 0);
  for (size_t t = 0; t < tiling.tiles().size(); ++t) {
    std::vector<float> said;
    for (int64_t y = 0; y < tile_height; ++y)
      for (int64_t x = 0; x < tile_width; ++x)
        said.push_back(truth[static_cast<size_t>((tiling.tiles()[t].top + y) * width + tiling.tiles()[t].left + x)]);
    tiling.add(t, said, sums);
  }
  tiling.finish(sums);
  return sums;
}

}  // namespace

TEST_CASE("tiles lie evenly, at most the step of their overlap apart, from edge to edge, as nnU-Net lays them") {
  CHECK(starts(64, 64, 0.5) == std::vector<int64_t>{0});
  CHECK(starts(65, 64, 0.5) == std::vector<int64_t>{0, 1});
  CHECK(starts(110, 64, 0.5) == std::vector<int64_t>{0, 23, 46});  // compute_steps_for_sliding_window, step 0.5
  CHECK(starts(128, 64, 0.5) == std::vector<int64_t>{0, 32, 64});
  CHECK(starts(128, 64, 0) == std::vector<int64_t>{0, 64});
  CHECK(starts(129, 64, 0) == std::vector<int64_t>{0, 33, 65});
  CHECK(starts(100, 16, 0.9).size() == 54);  // a step of at most 1.6
  CHECK(starts(8, 4, 0.99) == std::vector<int64_t>{0, 1, 2, 3, 4});
  const Tiling tiling(20, 30, 16, 16, 0.5);
  std::vector<std::pair<int64_t, int64_t>> places;
  for (const Tiling::Tile& tile : tiling.tiles()) places.emplace_back(tile.top, tile.left);
  CHECK(places == std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {0, 7}, {0, 14}, {4, 0}, {4, 7}, {4, 14}});
}

TEST_CASE("a tile counts by a Gaussian with a deviation of an eighth of its sides") {
  const Tiling tiling(40, 17, 32, 17, 0.5);
  const std::vector<float>& weights = tiling.weights();
  const auto at = [&](size_t y, size_t x) { return weights[y * 17 + x]; };
  for (size_t y = 0; y < 32; ++y)
    for (size_t x = 0; x < 17; ++x) {
      CHECK(at(y, x) == at(31 - y, 16 - x));
      CHECK(at(y, x) > 0);
    }
  CHECK(at(15, 8) == Approx(std::exp(-0.5 * 0.125 * 0.125)));  // half a row off the centre, deviation 4
  CHECK(at(19, 8) / at(15, 8) == Approx(std::exp(-0.5 * (0.875 * 0.875 - 0.125 * 0.125))));
  CHECK(at(15, 0) / at(15, 8) == Approx(std::exp(-0.5 * 16 * (16.0 / 17) * (16.0 / 17))));
}

TEST_CASE("where all tiles agree the picture is what they say, and one tile is itself to the bit") {
  std::vector<float> truth;
  for (const uint8_t value : random_image(1, 37 * 53, 1, 3).bytes) truth.push_back(static_cast<float>(value) / 255);
  for (const double overlap : {0.0, 0.5, 0.75}) {
    const std::vector<float> found = blended({37, 53, 16, 16, overlap}, 37, 53, 16, 16, truth);
    for (size_t i = 0; i < truth.size(); ++i) CHECK(found[i] == Approx(truth[i]).margin(1e-6));
  }
  CHECK(blended({37, 53, 37, 53, 0.5}, 37, 53, 37, 53, truth) == truth);
}

TEST_CASE("where tiles differ each pixel is their mean by weight") {
  const Tiling tiling(8, 12, 8, 8, 0.5);
  REQUIRE(tiling.tiles().size() == 2);
  std::vector<float> sums(8 * 12, 0);
  tiling.add(0, std::vector<float>(64, 0.2F), sums);
  tiling.add(1, std::vector<float>(64, 0.8F), sums);
  tiling.finish(sums);
  for (size_t x = 0; x < 12; ++x) {
    const auto bell = [](double away) { return std::exp(-away * away / 2); };  // a deviation of one pixel
    const double left = x < 8 ? bell(static_cast<double>(x) - 3.5) : 0;
    const double right = x < 4 ? 0 : bell(static_cast<double>(x) - 7.5);
    CHECK(sums[3 * 12 + x] == Approx((0.2 * left + 0.8 * right) / (left + right)).margin(1e-6));
  }
}
