#include "dtrain/data/pixels/called_classes.hpp"

#include <ATen/ATen.h>

#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("the largest probability above the threshold wins, ties to the lower class") {
  const std::vector<std::vector<float>> planes = {{0.5F, 0.6F, 0.8F, 0.7F, 0.2F}, {0.5F, 0.9F, 0.8F, 0.6F, 0.4F}};
  CHECK(called_classes(planes, 0.5) == std::vector<uint8_t>{0, 2, 1, 1, 0});
  CHECK(called_classes(planes, 0.3) == std::vector<uint8_t>{1, 2, 1, 1, 2});
  CHECK(called_classes(planes, 1) == std::vector<uint8_t>(5, 0));
}

TEST_CASE("masks of a batch are called as those of single pictures, ties, halves and saturated ones, too") {
  // A grid of 9 values for each of 3 classes: every order, every tie, ½ itself and its neighbours.
  const std::vector<float> values = {0, 0.3F, 0.49999997F, 0.5F, 0.50000006F, 0.6F, 0.99999994F, 1, 0.75F};
  std::vector<std::vector<float>> planes(3);
  for (const float a : values)
    for (const float b : values)
      for (const float c : values) {
        planes[0].push_back(a);
        planes[1].push_back(b);
        planes[2].push_back(c);
      }
  for (size_t classes = 1; classes <= planes.size(); ++classes) {
    const std::vector<std::vector<float>> some(planes.begin(), planes.begin() + static_cast<std::ptrdiff_t>(classes));
    const std::vector<uint8_t> called = called_classes(some, 0.5);
    at::Tensor batch = at::zeros({2, static_cast<int64_t>(classes), 27, 27});
    for (size_t k = 0; k < classes; ++k) batch[1][static_cast<int64_t>(k)].copy_(at::tensor(some[k]).view({27, 27}));
    const at::Tensor masks = called_masks(batch);
    REQUIRE(masks.sizes() == batch.sizes());
    CHECK_FALSE(masks[0].any().item<bool>());
    for (size_t p = 0; p < called.size(); ++p)
      for (size_t k = 0; k < classes; ++k) {
        const auto y = static_cast<int64_t>(p / 27), x = static_cast<int64_t>(p % 27);
        REQUIRE(masks[1][static_cast<int64_t>(k)][y][x].item<bool>() == (called[p] == k + 1));
      }
  }
}
