// Where a network found a class, laid over the picture.
#include "dtrain/data/pixels/heat_map.hpp"

#include "folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

TEST_CASE("heat runs from blue over green to red and lets half of the picture through") {
  Image picture{1, 5, 3, 8, std::vector<uint8_t>(15, 100), {}};
  draw_heat(picture, std::vector<float>{-1, 0, 0.5F, 1, 9});
  CHECK(picture.bytes == std::vector<uint8_t>{50, 50, 178, 50, 50, 178, 50, 178, 50, 178, 50, 50, 178, 50, 50});
}

TEST_CASE("a map is stretched to 0 … 1 and lies where the network saw the picture") {
  const std::vector<float> map = {-3, -3, -3, 5};  // hottest below on the right
  const std::vector<float> heat = heat_at_picture_size({map, 2, 2}, 8, 8, plain(8, 8, 1));
  CHECK(heat.front() == 0);
  CHECK(heat.back() == 1);
  CHECK(heat[8 * 3 + 7] < heat[8 * 4 + 7]);
  const std::vector<float> enlarged = heat_at_picture_size({map, 2, 2}, 16, 32, plain(8, 8, 1));
  CHECK(enlarged.front() == 0);
  CHECK(enlarged.back() == 1);
  // What a crop has cut off is cold, however hot its neighbours are.
  const std::vector<float> cut = heat_at_picture_size({map, 2, 2}, 8, 16, plain(8, 8, 1, Resize::crop));
  CHECK(cut[8 * 16 - 5] == 1);
  CHECK(cut[8 * 16 - 4] == 0);
  const std::vector<float> level = {2, 2, 2, 2};
  CHECK(heat_at_picture_size({level, 2, 2}, 3, 3, plain(8, 8, 1)) == std::vector<float>(9, 0));
}
