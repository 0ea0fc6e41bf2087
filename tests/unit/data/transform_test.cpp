#include "dtrain/data/pixels/transform.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rot90.h>

#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

static std::vector<float> as_shown(const Image& image, const ImageOptions& options, const AugmentDraw& draw = {}) {
  std::vector<float> out(static_cast<size_t>(options.seen_height() * options.seen_width() * options.channels));
  transform_image(image, options, draw, out);
  return out;
}

// LibTorch's antialiased bilinear resize, behind torchvision's Resize; HWC in [0, 1].
static at::Tensor reference(const Image& image, int64_t height, int64_t width) {
  at::Tensor pixels = at::empty({image.height, image.width, image.channels}, at::kFloat);
  auto* out = pixels.mutable_data_ptr<float>();
  for (int64_t i = 0; i < pixels.numel(); ++i)
    out[i] = image.bits == 8 ? static_cast<float>(image.bytes[static_cast<size_t>(i)]) / 255
                             : static_cast<float>(image.words[static_cast<size_t>(i)]) / 65535;
  const at::Tensor planes = pixels.permute({2, 0, 1}).unsqueeze(0).contiguous();
  return at::_upsample_bilinear2d_aa(planes, {height, width}, false).squeeze(0).permute({1, 2, 0}).contiguous();
}

static double distance_from(const std::vector<float>& values, const at::Tensor& expected) {
  const at::Tensor flat = expected.contiguous().view({-1});
  REQUIRE(flat.numel() == static_cast<int64_t>(values.size()));
  double largest = 0;
  for (size_t i = 0; i < values.size(); ++i)
    largest = std::max(largest,
                       std::abs(static_cast<double>(values[i]) - static_cast<double>(flat.const_data_ptr<float>()[i])));
  return largest;
}

TEST_CASE("resizing agrees with LibTorch's antialiased bilinear, up, down and mixed") {
  unsigned seed = 1;
  for (int64_t channels : {1, 3})
    for (const auto& [from, to] : {std::pair<std::array<int64_t, 2>, std::array<int64_t, 2>>{{200, 300}, {64, 48}},
                                   {{40, 30}, {100, 90}},
                                   {{100, 20}, {30, 50}},
                                   {{33, 57}, {33, 57}},
                                   {{1, 1}, {5, 7}},
                                   {{17, 2}, {1, 1}},
                                   {{255, 256}, {254, 31}}}) {
      const Image image = random_image(from[0], from[1], channels, seed++);
      CAPTURE(from[0], from[1], to[0], to[1], channels);
      CHECK(distance_from(as_shown(image, plain(to[0], to[1], channels)), reference(image, to[0], to[1])) < 1e-5);
    }
}

TEST_CASE("16-bit pictures are scaled by their own white") {
  Image image{20, 30, 1, 16, {}, {}};
  for (int i = 0; i < 600; ++i) image.words.push_back(static_cast<uint16_t>(i * 109));
  CHECK(distance_from(as_shown(image, plain(9, 11, 1)), reference(image, 9, 11)) < 1e-5);
  image.words.assign(600, 65535);
  CHECK(as_shown(image, plain(5, 5, 1))[12] == Approx(1));
}

TEST_CASE("pad keeps the aspect, centred on black") {
  Image image{2, 4, 1, 8, std::vector<uint8_t>(8, 255), {}};
  const std::vector<float> out = as_shown(image, plain(8, 8, 1, Resize::pad));
  for (size_t y = 0; y < 8; ++y)
    for (size_t x = 0; x < 8; ++x) CHECK(out[y * 8 + x] == Approx(y >= 2 && y < 6 ? 1 : 0));
  ImageOptions normal = plain(8, 8, 1, Resize::pad);
  normal.mean = {0.5};
  normal.std = {0.25};
  CHECK(as_shown(image, normal)[0] == Approx(-2));
  CHECK(as_shown(image, normal)[3 * 8] == Approx(2));
}

TEST_CASE("crop covers the canvas and cuts the centre") {
  const Image image = random_image(40, 100, 3, 5);
  const at::Tensor whole = reference(image, 20, 50);
  const at::Tensor cut = whole.slice(1, 15, 35);
  CHECK(distance_from(as_shown(image, plain(20, 20, 3, Resize::crop)), cut) < 1e-5);
}

TEST_CASE("grey is repeated over three channels, colour becomes grey by ITU-R 601") {
  const Image grey = random_image(6, 5, 1, 1);
  const std::vector<float> three = as_shown(grey, plain(6, 5, 3));
  for (size_t i = 0; i < 30; ++i)
    for (size_t c = 0; c < 3; ++c) CHECK(three[3 * i + c] == Approx(grey.bytes[i] / 255.0));
  const Image colour = random_image(6, 5, 3, 2);
  const std::vector<float> one = as_shown(colour, plain(6, 5, 1));
  for (size_t i = 0; i < 30; ++i)
    CHECK(one[i] == Approx((299 * colour.bytes[3 * i] + 587 * colour.bytes[3 * i + 1] + 114 * colour.bytes[3 * i + 2]) /
                           255000.0));
}

TEST_CASE("normalisation has ImageNet's numbers by default for colour, a half for grey") {
  const Image white{1, 1, 1, 8, {255}, {}};
  ImageOptions options;
  options.height = options.width = 1;
  const std::vector<float> colour = as_shown(white, options);
  CHECK(colour[0] == Approx((1 - 0.485) / 0.229));
  CHECK(colour[2] == Approx((1 - 0.406) / 0.225));
  options.channels = 1;
  CHECK(as_shown(white, options)[0] == Approx(1));
}

TEST_CASE("flips and turns move whole pixels, as LibTorch's flip and rot90") {
  const Image image = random_image(7, 7, 3, 3);
  const ImageOptions options = plain(7, 7, 3);
  const at::Tensor pixels = reference(image, 7, 7);
  for (int turns = 0; turns < 4; ++turns)
    for (const bool h : {false, true})
      for (const bool v : {false, true}) {
        CAPTURE(turns, h, v);
        at::Tensor expected = pixels;
        if (h) expected = expected.flip(1);
        if (v) expected = expected.flip(0);
        expected = at::rot90(expected, turns, {0, 1});
        CHECK(distance_from(as_shown(image, options, {h, v, turns, 1, 1}), expected) < 1e-6);
      }
  const Image wide = random_image(4, 9, 1, 3);
  CHECK(distance_from(as_shown(wide, plain(4, 9, 1), {true, true, 0, 1, 1}), reference(wide, 4, 9).flip({0, 1})) <
        1e-6);
  error_of(78, [&] { as_shown(wide, plain(4, 9, 1), {false, false, 1, 1, 1}); });
}

TEST_CASE("a window is a part of the resized picture, pixel for pixel: the middle, or anywhere") {
  const Image image = random_image(20, 31, 3, 5);
  ImageOptions options = plain(9, 12, 3);
  const at::Tensor whole = reference(image, 9, 12);
  options.window_height = 4;
  options.window_width = 5;
  const auto part = [&](int64_t top, int64_t left) { return whole.slice(0, top, top + 4).slice(1, left, left + 5); };
  CHECK(distance_from(as_shown(image, options), part(2, 3)) < 1e-5);
  const AugmentDraw corner{.hflip = true, .window = true, .window_y = 0, .window_x = 0.999};
  CHECK(distance_from(as_shown(image, options, corner), part(0, 7).flip(1)) < 1e-5);
  error_of(78, [&] { as_shown(image, options, {.quarter_turns = 1}); });
  options.window_width = 4;
  CHECK(distance_from(as_shown(image, options, {.quarter_turns = 1}), at::rot90(part(2, 4).slice(1, 0, 4), 1, {0, 1})) <
        1e-5);

  Image mask{9, 12, 1, 8, {}, {}};
  for (int i = 0; i < 108; ++i) mask.bytes.push_back(i % 12 == 8 && i / 12 == 5 ? 1 : 0);
  std::vector<float> plane(16);
  transform_mask(mask, options, {.window = true, .window_y = 5.5 / 6, .window_x = 8.5 / 9}, 1, plane);
  for (size_t i = 0; i < plane.size(); ++i) CHECK(plane[i] == (i == 0 ? 1 : 0));
}

TEST_CASE("random_window takes every place as often as the others, and leaves the other draws as they were") {
  AugmentOptions options;
  options.hflip = 0.5;
  options.random_window = true;
  ImageOptions size = plain(8, 8, 1);
  size.window_height = 6;
  size.window_width = 8;
  std::array<int, 3> tops{};
  for (uint64_t sample = 0; sample < 3000; ++sample) {
    AugmentDraw draw = draw_augmentation(options, 1, 0, sample);
    REQUIRE(draw.hflip == draw_augmentation({.hflip = 0.5}, 1, 0, sample).hflip);
    draw.hflip = false;
    const PictureWalk walk = walk_of(draw, size);
    REQUIRE(walk.start % 8 == 0);
    ++tops.at(static_cast<size_t>(walk.start / 8));
  }
  for (const int count : tops) CHECK(std::abs(count - 1000) < 130);
}

TEST_CASE("brightness and contrast follow torchvision and stay in range") {
  const Image image = random_image(8, 8, 3, 4);
  const at::Tensor pixels = reference(image, 8, 8);
  const at::Tensor bright = (pixels * 1.3).clamp(0, 1);
  CHECK(distance_from(as_shown(image, plain(8, 8, 3), {false, false, 0, 1.3F, 1}), bright) < 1e-6);
  const at::Tensor grey = bright.select(2, 0) * 0.299 + bright.select(2, 1) * 0.587 + bright.select(2, 2) * 0.114;
  const at::Tensor both = (bright * 1.6 + grey.mean() * (1 - 1.6)).clamp(0, 1);
  CHECK(distance_from(as_shown(image, plain(8, 8, 3), {false, false, 0, 1.3F, 1.6F}), both) < 1e-5);
}

TEST_CASE("augmentation is keyed by seed, epoch and sample, and each kind draws its own numbers") {
  AugmentOptions options;
  options.hflip = options.vflip = options.rot90 = 0.5;
  options.brightness = options.contrast = 0.2;
  const auto equal = [](const AugmentDraw& a, const AugmentDraw& b) {
    return a.hflip == b.hflip && a.vflip == b.vflip && a.quarter_turns == b.quarter_turns &&
           a.brightness == b.brightness && a.contrast == b.contrast;
  };
  CHECK(equal(draw_augmentation(options, 1, 2, 3), draw_augmentation(options, 1, 2, 3)));
  CHECK_FALSE(equal(draw_augmentation(options, 1, 2, 3), draw_augmentation(options, 1, 2, 4)));
  CHECK_FALSE(equal(draw_augmentation(options, 1, 2, 3), draw_augmentation(options, 1, 3, 3)));
  CHECK_FALSE(equal(draw_augmentation(options, 1, 2, 3), draw_augmentation(options, 2, 2, 3)));
  AugmentOptions flips;
  flips.hflip = 0.5;
  int flipped = 0;
  std::array<int, 4> turns{};
  for (uint64_t id = 0; id < 4000; ++id) {
    const AugmentDraw all = draw_augmentation(options, 1, 0, id);
    const AugmentDraw some = draw_augmentation(flips, 1, 0, id);
    REQUIRE(all.hflip == some.hflip);
    REQUIRE((some.brightness == 1 && some.contrast == 1 && some.quarter_turns == 0 && !some.vflip));
    REQUIRE((all.brightness >= 0.8F && all.brightness <= 1.2F));
    flipped += all.hflip ? 1 : 0;
    ++turns[static_cast<size_t>(all.quarter_turns)];
  }
  CHECK(std::abs(flipped - 2000) < 160);
  CHECK(std::abs(turns[0] - 2000) < 160);
  for (size_t t = 1; t < 4; ++t) CHECK(std::abs(turns[t] - 667) < 120);
}

TEST_CASE("a mask moves with its image, whatever the resize and the augmentation") {
  // The image shows its mask: white where class 1. Enlarged by whole factors, both must agree on every pixel's side.
  Image mask{6, 8, 1, 8, {}, {}};
  for (int i = 0; i < 48; ++i) mask.bytes.push_back(i * 7 % 5 == 0 ? 1 : 0);
  Image image = mask;
  for (uint8_t& value : image.bytes) value = static_cast<uint8_t>(value * 255);
  for (const auto& [height, width, resize] :
       {std::tuple<int64_t, int64_t, Resize>{24, 24, Resize::pad}, {18, 18, Resize::crop}, {18, 18, Resize::squash}})
    for (int turns = 0; turns < 4; ++turns) {
      const AugmentDraw draw{turns % 2 == 0, turns > 1, turns, 1, 1};
      const ImageOptions options = plain(height, width, 1, resize);
      const std::vector<float> shown = as_shown(image, options, draw);
      std::vector<float> planes(static_cast<size_t>(height * width * 2));
      transform_mask(mask, options, draw, 2, planes);
      int64_t covered = 0;
      int64_t wrong = 0;
      for (size_t i = 0; i < shown.size(); ++i) {
        covered += planes[i] == 1 ? 1 : 0;
        wrong += (shown[i] > 0.5F) != (planes[i] == 1) ? 1 : 0;
        REQUIRE(planes[shown.size() + i] == 0);
      }
      CAPTURE(turns, height, width);
      CHECK(covered > 30);
      CHECK(wrong * 12 < static_cast<int64_t>(shown.size()));  // the bilinear edge may round the corner of a pixel
    }
}

TEST_CASE("a mask of the canvas's size is taken over exactly, one plane per class") {
  const Image mask{2, 2, 1, 8, {0, 1, 2, 1}, {}};
  std::vector<float> planes(8);
  transform_mask(mask, plain(2, 2, 1), {}, 2, planes);
  CHECK(planes == std::vector<float>{0, 1, 0, 1, 0, 0, 1, 0});
  transform_mask(mask, plain(2, 2, 1), {true, false, 0, 1, 1}, 2, planes);
  CHECK(planes == std::vector<float>{1, 0, 1, 0, 0, 0, 0, 1});
}
