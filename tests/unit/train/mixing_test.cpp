#include "dtrain/train/mixing.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "support/catch.hpp"

using namespace dtrain;

static double mean_of(const std::vector<double>& values, int power) {
  double sum = 0;
  for (const double value : values) sum += std::pow(value, power);
  return sum / static_cast<double>(values.size());
}

TEST_CASE("lambda is drawn from Beta(alpha, alpha), however small or large alpha is") {
  for (const double alpha : {0.001, 0.1, 0.2, 1.0, 4.0, 100.0}) {
    KeyedRandom random(1, Purpose::mixing);
    std::vector<double> values;
    for (int i = 0; i < 20000; ++i) {
      values.push_back(draw_beta(random, alpha));
      REQUIRE((values.back() >= 0 && values.back() <= 1));
    }
    CAPTURE(alpha);
    CHECK(mean_of(values, 1) == Approx(0.5).margin(0.015));
    const double variance = 1 / (4 * (2 * alpha + 1));
    CHECK(mean_of(values, 2) - 0.25 == Approx(variance).margin(0.015 * (0.1 + variance)).epsilon(0.05));
  }
}

TEST_CASE("a mix is keyed by seed, pass and logical rank; with both kinds each gets its half") {
  const MixOptions both{.mixup = 0.4, .cutmix = 1};
  CHECK(draw_mix(both, 1, 2, 3).share == draw_mix(both, 1, 2, 3).share);
  CHECK(draw_mix(both, 1, 2, 3).share != draw_mix(both, 2, 2, 3).share);
  CHECK(draw_mix(both, 1, 2, 3).share != draw_mix(both, 1, 3, 3).share);
  CHECK(draw_mix(both, 1, 2, 3).share != draw_mix(both, 1, 2, 4).share);
  int cut = 0;
  for (int64_t pass = 0; pass < 2000; ++pass) {
    cut += draw_mix(both, 1, pass, 0).cut ? 1 : 0;
    REQUIRE(draw_mix({0, 1}, 1, pass, 0).cut);
    REQUIRE_FALSE(draw_mix({1, 0}, 1, pass, 0).cut);
  }
  CHECK(std::abs(cut - 1000) < 120);
  CHECK(draw_mix({}, 1, 2, 3).share == 1);
}

TEST_CASE("mixup is the weighted mean of a picture and the one before it, with the targets of both") {
  const at::Tensor images = at::rand({3, 2, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor targets = at::tensor({0, 1, 2}, at::kLong);
  const MixedBatch mixed = mix_batch({.share = 0.7, .cut = false, .y = 0.5, .x = 0.5}, images, targets, false);
  CHECK(mixed.share == 0.7);
  CHECK(at::allclose(mixed.images[1], images[1] * 0.7 + images[0] * 0.3));
  CHECK(at::allclose(mixed.images[0], images[0] * 0.7 + images[2] * 0.3));
  CHECK(mixed.images.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(at::equal(mixed.targets, at::tensor({0, 1, 2, 2, 0, 1}, at::kLong)));
}

TEST_CASE("cutmix puts in a rectangle of the one before, and counts the area that is left") {
  const at::Tensor images = at::arange(2, at::kFloat).view({2, 1, 1, 1}).expand({2, 3, 10, 20}).contiguous();
  const at::Tensor targets = at::zeros({2, 4});
  const MixedBatch mixed = mix_batch({.share = 0.75, .cut = true, .y = 0.5, .x = 0.5}, images, targets, false);
  CHECK(mixed.share == 0.75);
  CHECK(mixed.images[0].sum().item<float>() == 3 * 5 * 10);
  CHECK(mixed.images[0].slice(1, 3, 7).slice(2, 5, 15).sum().item<float>() == 3 * 4 * 10);
  CHECK(mixed.images[1].sum().item<float>() == 3 * (200 - 50));
  const MixedBatch corner = mix_batch({.share = 0.75, .cut = true, .y = 0, .x = 0}, images, targets, false);
  CHECK(corner.images[0].sum().item<float>() == Approx(3 * 200 * (1 - corner.share)));  // cut at the edges: less
  CHECK(corner.share > 0.9);
  CHECK(images[0].sum().item<float>() == 0);  // the arguments stay

  const at::Tensor masks = images.slice(1, 0, 1).clone();
  const MixedBatch cut = mix_batch({.share = 0.75, .cut = true, .y = 0.5, .x = 0.5}, images, masks, true);
  CHECK(cut.share == 1);
  CHECK(at::equal(cut.targets.slice(0, 0, 2), cut.images.slice(1, 0, 1)));
}

TEST_CASE("a batch of one is left as it is") {
  const at::Tensor image = at::rand({1, 1, 4, 4});
  for (const bool cut : {false, true}) {
    const MixedBatch mixed = mix_batch({.share = 0.3, .cut = cut, .y = 0.5, .x = 0.5}, image, at::ones({1, 2}), false);
    CHECK(at::equal(mixed.images, image));
    CHECK(mixed.share == 1);
    CHECK(mixed.targets.size(0) == 2);
  }
}
