#include "dtrain/data/pixels/called_classes.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("the largest probability above the threshold wins, ties to the lower class") {
  const std::vector<std::vector<float>> planes = {{0.5F, 0.6F, 0.8F, 0.7F, 0.2F}, {0.5F, 0.9F, 0.8F, 0.6F, 0.4F}};
  CHECK(called_classes(planes, 0.5) == std::vector<uint8_t>{0, 2, 1, 1, 0});
  CHECK(called_classes(planes, 0.3) == std::vector<uint8_t>{1, 2, 1, 1, 2});
  CHECK(called_classes(planes, 1) == std::vector<uint8_t>(5, 0));
}

TEST_CASE("classes that exclude each other have background's probability as their threshold") {
  // With background's own: 0.4 of 0.3, 0.4, 0.3; 0.2, 0.45, 0.35; a tie; nothing but background.
  const std::vector<std::vector<float>> planes = {{0.3F, 0.45F, 0.5F, 0}, {0.3F, 0.35F, 0, 0}};
  CHECK(called_classes(planes, std::nullopt) == std::vector<uint8_t>{0, 1, 0, 0});
  CHECK(called_classes(planes, 0.5) == std::vector<uint8_t>(4, 0));
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
    at::Tensor batch = at::zeros({2, static_cast<int64_t>(classes), 27, 27});
    for (size_t k = 0; k < classes; ++k) batch[1][static_cast<int64_t>(k)].copy_(at::tensor(some[k]).view({27, 27}));
    for (const bool exclusive : {false, true}) {
      const std::vector<uint8_t> called = called_classes(some, exclusive ? std::nullopt : std::optional(0.5));
      const at::Tensor masks = called_masks(batch, exclusive);
      REQUIRE(masks.sizes() == batch.sizes());
      CHECK_FALSE(masks[0].any().item<bool>());
      for (size_t p = 0; p < called.size(); ++p)
        for (size_t k = 0; k < classes; ++k) {
          const auto y = static_cast<int64_t>(p / 27), x = static_cast<int64_t>(p % 27);
          REQUIRE(masks[1][static_cast<int64_t>(k)][y][x].item<bool>() == (called[p] == k + 1));
        }
    }
  }
}
