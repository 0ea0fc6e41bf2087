// Draws, geometry and effects of augmentation, each against known answers.
#include "dtrain/data/pixels/augment.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

#include <cmath>
#include <numeric>
#include <set>

#include "batches.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/pixels/pixel_effects.hpp"
#include "dtrain/data/pixels/placement.hpp"
#include "dtrain/data/pixels/transform.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

AugmentOptions everything() {
  AugmentOptions all;
  all.hflip = all.vflip = all.rot90 = 0.5;
  all.random_crop_low = 0.3;
  all.random_crop_high = 1;
  all.rotate = 20;
  all.scale = all.translate = 0.2;
  all.elastic = 2;
  all.blur = 1;
  all.brightness = all.contrast = all.gamma = 0.3;
  all.noise = 0.1;
  all.cutout = 0.25;
  return all;
}

AugmentDraw turned(double degrees) {
  AugmentDraw draw;
  draw.rotate = degrees;
  return draw;
}

AugmentDraw moved(double down, double right) {
  AugmentDraw draw;
  draw.translate_y = down;
  draw.translate_x = right;
  return draw;
}

AugmentDraw cropped(double area, double aspect, double y, double x) {
  AugmentDraw draw;
  draw.crop = true;
  draw.crop_area = area;
  draw.crop_aspect = aspect;
  draw.crop_y = y;
  draw.crop_x = x;
  return draw;
}

std::vector<float> transformed(const Image& image, const ImageOptions& options, const AugmentDraw& draw) {
  std::vector<float> out(static_cast<size_t>(options.height * options.width * options.channels));
  transform_image(image, options, draw, out);
  return out;
}

std::vector<uint8_t> placed(const Image& mask, const ImageOptions& options, const AugmentDraw& draw,
                            int64_t classes = 255) {
  std::vector<uint8_t> out(static_cast<size_t>(options.height * options.width));
  place_mask(mask, options, draw, classes, out);
  return out;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

// Classes 0 … 2 in large round patches, so that few pixels lie on a border.
Image patches(int64_t height, int64_t width) {
  Image mask{height, width, 1, 8, {}, {}};
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const auto inside = [&](double cy, double cx, double radius) {
        return std::hypot(static_cast<double>(y) - cy * static_cast<double>(height),
                          static_cast<double>(x) - cx * static_cast<double>(width)) < radius;
      };
      mask.bytes.push_back(inside(0.35, 0.4, 22) ? 1 : inside(0.7, 0.65, 17) ? 2 : 0);
    }
  return mask;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments_of(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / n)};
}

}  // namespace

TEST_CASE("parameters that change nothing give the very bits of no augmentation") {
  for (const Resize resize : {Resize::squash, Resize::pad, Resize::crop})
    for (const int64_t channels : {1, 3}) {
      const Image image = random_image(37, 53, channels, 7);
      const ImageOptions options = plain(32, 48, channels, resize);
      AugmentDraw draw;
      draw.elastic_grid = 9;
      draw.elastic_key = draw.noise_key = 99;
      draw.cutout_y = 0.1;
      draw.crop_area = 0.5;  // of a crop that is off
      CHECK(transformed(image, options, draw) == transformed(image, options, {}));
    }
  const Image image = random_image(37, 53, 3, 7);
  const ImageOptions options = plain(32, 48, 3);
  CHECK(transformed(image, options, cropped(1, 1, 0.3, 0.9)) == transformed(image, options, {}));
  // A draw of an epoch with all of it off.
  CHECK(transformed(image, options, draw_augmentation({}, 1, 2, 3)) == transformed(image, options, {}));
}

TEST_CASE("a rotation by quarters is the quarter turn, of pictures and masks, whatever their size") {
  for (const int64_t side : {31, 48})
    for (const int64_t channels : {1, 3})
      for (int turns = 1; turns < 4; ++turns) {
        const Image image = random_image(side, side, channels, 5);
        const ImageOptions options = plain(side, side, channels);
        AugmentDraw quarter;
        quarter.quarter_turns = turns;
        CAPTURE(side, channels, turns);
        CHECK(largest_difference(transformed(image, options, turned(90 * turns)),
                                 transformed(image, options, quarter)) < 1e-4);
      }
  const Image mask = patches(64, 64);
  const std::vector<uint8_t> quarter = placed(mask, plain(64, 64, 1), turned(90));
  for (size_t y = 0; y < 64; ++y)
    for (size_t x = 0; x < 64; ++x) REQUIRE(quarter[y * 64 + x] == mask.bytes[x * 64 + 63 - y]);
  const Image large = random_image(90, 120, 3, 6);  // resized on the way
  AugmentDraw half;
  half.hflip = half.vflip = true;
  CHECK(largest_difference(transformed(large, plain(30, 40, 3), turned(180)),
                           transformed(large, plain(30, 40, 3), half)) < 1e-4);
}

TEST_CASE("a translation by whole pixels moves them, and what comes in is black and background") {
  const Image image = random_image(20, 40, 3, 8);
  const ImageOptions options = plain(20, 40, 3);
  const std::vector<float> before = transformed(image, options, {});
  const std::vector<float> after = transformed(image, options, moved(0.25, -0.1));  // 5 down, 4 to the left
  for (int64_t y = 0; y < 20; ++y)
    for (int64_t x = 0; x < 40; ++x)
      for (int64_t c = 0; c < 3; ++c) {
        const bool inside = y >= 5 && x < 36;
        const float expected = inside ? before[static_cast<size_t>(((y - 5) * 40 + x + 4) * 3 + c)] : 0;
        REQUIRE(after[static_cast<size_t>((y * 40 + x) * 3 + c)] == Approx(expected).margin(1e-6));
      }
  Image mask = patches(20, 40);
  mask.bytes.assign(mask.bytes.size(), 1);
  const std::vector<uint8_t> shifted = placed(mask, options, moved(0.25, -0.1));
  CHECK(std::accumulate(shifted.begin(), shifted.end(), 0) == 15 * 36);
  CHECK(transformed(image, options, moved(1, 0)) == std::vector<float>(2400, 0));
}

TEST_CASE("a crop is the part of the picture, at the picture's own resolution") {
  const Image image = random_image(64, 96, 3, 9);
  const ImageOptions options = plain(16, 24, 3);
  // Rows 16 … 48, columns 48 … 96: a quarter of the area.
  const AugmentDraw draw = cropped(0.25, 1, 0.5, 1);
  Image part{32, 48, 3, 8, {}, {}};
  for (int64_t y = 16; y < 48; ++y)
    part.bytes.insert(part.bytes.end(), image.bytes.begin() + (y * 96 + 48) * 3,
                      image.bytes.begin() + (y + 1) * 96 * 3);
  const std::vector<float> expected = transformed(part, options, {});
  const std::vector<float> found = transformed(image, options, draw);
  for (size_t y = 1; y < 15; ++y)  // at the crop's edges the resize also reads pixels outside
    for (size_t x = 1; x < 23; ++x)
      for (size_t c = 0; c < 3; ++c)
        REQUIRE(found[(y * 24 + x) * 3 + c] == Approx(expected[(y * 24 + x) * 3 + c]).margin(1e-5));
  // The same as scaling by two about the middle, except for its position.
  AugmentDraw twice;
  twice.scale = 2;
  CHECK(transformed(image, options, twice) == transformed(image, options, cropped(0.25, 1, 0.5, 0.5)));
}

TEST_CASE("a crop keeps its stretch in bounds and its area where it can, inside of the picture") {
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{100, 100}, {60, 240}, {333, 100}})
    for (const Resize resize : {Resize::squash, Resize::pad, Resize::crop})
      for (uint64_t id = 0; id < 500; ++id) {
        AugmentOptions augment;
        augment.random_crop_low = 0.08;
        augment.random_crop_high = 1;
        const AugmentDraw draw = draw_augmentation(augment, 3, 1, id);
        const Fit fit = placed_fit(height, width, plain(32, 32, 1, resize), draw);
        const double top = fit.rows.input_at(0), bottom = fit.rows.input_at(32);
        const double left = fit.columns.input_at(0), right = fit.columns.input_at(32);
        const double area = (bottom - top) * (right - left) / static_cast<double>(height * width);
        const double squashed = resize == Resize::squash ? static_cast<double>(width) / static_cast<double>(height) : 1;
        const double aspect = (right - left) / (bottom - top) / squashed;
        CAPTURE(height, width, id, area, aspect);
        REQUIRE((top > -1e-6 && left > -1e-6));
        REQUIRE((bottom < static_cast<double>(height) + 1e-6 && right < static_cast<double>(width) + 1e-6));
        REQUIRE(area <= draw.crop_area + 1e-9);
        REQUIRE((aspect > 0.75 - 1e-9 && aspect < 4.0 / 3 + 1e-9));
        if (resize == Resize::squash && draw.crop_area < 0.74) REQUIRE(area == Approx(draw.crop_area));
      }
}

TEST_CASE("masks keep their values and stay on their pictures, whatever moves them") {
  const Image mask = patches(96, 96);
  AugmentOptions options = everything();
  options.blur = options.noise = options.cutout = options.brightness = options.contrast = options.gamma = 0;
  options.elastic = 3;
  for (const auto& [height, width, resize] : {std::tuple<int64_t, int64_t, Resize>{96, 96, Resize::squash},
                                              {64, 64, Resize::squash},
                                              {144, 144, Resize::pad},
                                              {80, 80, Resize::crop}})
    for (uint64_t id = 0; id < 20; ++id) {
      const AugmentDraw draw = draw_augmentation(options, 1, 0, id);
      const ImageOptions size = plain(height, width, 1, resize);
      std::vector<float> planes(static_cast<size_t>(height * width * 2));
      transform_mask(mask, size, draw, 2, planes);
      for (const uint8_t number : {1, 2}) {
        Image shown = mask;  // white where the class is: a threshold of the picture is the mask
        for (uint8_t& value : shown.bytes) value = value == number ? 255 : 0;
        const std::vector<float> pixels = transformed(shown, size, draw);
        int64_t covered = 0, wrong = 0;
        for (size_t i = 0; i < pixels.size(); ++i) {
          const bool marked = planes[static_cast<size_t>(number - 1) * pixels.size() + i] == 1;
          covered += marked ? 1 : 0;
          wrong += (pixels[i] > 0.5F) != marked ? 1 : 0;
        }
        CAPTURE(height, id, int{number}, covered, wrong);
        // A border may fall on the other side of a pixel's centre: fewer pixels than the outline of a disc has.
        REQUIRE(static_cast<double>(wrong) <= 4 + 1.5 * std::sqrt(static_cast<double>(covered)));
      }
    }
  Image odd = random_image(50, 70, 1, 1);
  for (uint8_t& value : odd.bytes) value = value > 128 ? 200 : 3;
  for (uint64_t id = 0; id < 20; ++id) {
    const std::vector<uint8_t> values = placed(odd, plain(40, 40, 1), draw_augmentation(options, 1, 0, id));
    const std::set<uint8_t> found(values.begin(), values.end());
    for (const uint8_t value : found) REQUIRE((value == 0 || value == 3 || value == 200));
  }
}

TEST_CASE("draws at the ends of every range leave pictures in [0, 1] and masks with their classes, at any size") {
  AugmentOptions options = everything();
  options.random_crop_low = 1e-4;
  options.crop_aspect_low = 0.05;
  options.crop_aspect_high = 20;
  options.rotate = 180;
  options.scale = 0.99;
  options.translate = options.brightness = options.contrast = options.noise = 1;
  options.elastic = 300;
  options.blur = 5;
  options.gamma = 10;
  options.cutout = 0.99;
  for (uint64_t id = 0; id < 300; ++id) {
    KeyedRandom random(4, Purpose::sample_set, id);
    const auto side = [&] { return 1 + static_cast<int64_t>(random.below(40)); };
    options.elastic_grid = 1 + side();
    const Image image = random_image(side(), side(), random.chance(0.5) ? 1 : 3, static_cast<unsigned>(id));
    Image mask{image.height, image.width, 1, 8, {}, {}};
    for (int64_t i = 0; i < image.height * image.width; ++i) mask.bytes.push_back(static_cast<uint8_t>(i % 3));
    ImageOptions size = plain(side(), side(), random.chance(0.5) ? 1 : 3, static_cast<Resize>(random.below(3)));
    AugmentDraw draw = draw_augmentation(options, 1, 0, id);
    draw.quarter_turns = 0;
    CAPTURE(id, image.height, image.width, size.height, size.width);
    for (const float pixel : transformed(image, size, draw)) REQUIRE((pixel >= 0 && pixel <= 1));
    for (const uint8_t number : placed(mask, size, draw, 2)) REQUIRE(number <= 2);
  }
}

TEST_CASE("elastic displacements have the standard deviation that was asked for, are smooth, and bounded") {
  constexpr int64_t kSide = 97;
  std::vector<double> at_points, steps;
  for (uint64_t key = 0; key < 400; ++key) {
    AugmentDraw draw;
    draw.elastic = 5;
    draw.elastic_grid = 4;
    draw.elastic_key = key;
    const ElasticField field(draw, kSide, kSide);
    std::vector<float> down(kSide), right(kSide), before;
    for (int64_t y = 0; y < kSide; ++y) {
      field.row(y, down.data(), right.data());
      for (const float value : down) REQUIRE(std::abs(value) <= field.bound());
      for (size_t x = 1; x < down.size(); ++x) steps.push_back(std::abs(static_cast<double>(right[x] - right[x - 1])));
      if (y == kSide / 3) at_points.push_back(static_cast<double>(down[kSide / 3]));  // the second point of the grid
      if (!before.empty())
        for (size_t x = 0; x < down.size(); ++x) steps.push_back(std::abs(static_cast<double>(down[x] - before[x])));
      before = down;
    }
  }
  const Moments points = moments_of(at_points);
  CHECK(std::abs(points.mean) < 0.8);
  CHECK(points.deviation == Approx(5).margin(0.6));
  CHECK(*std::max_element(steps.begin(), steps.end()) < 2.5);  // points are 32 pixels apart
}

TEST_CASE("blur keeps light, spreads a point by its standard deviation and treats rows as columns") {
  std::vector<float> flat(40 * 30 * 3, 0.25F);
  blur_picture({flat, 40, 30, 3}, 2.5F);
  for (const float value : flat) REQUIRE(value == Approx(0.25));
  for (const float sigma : {0.3F, 1.0F, 3.0F}) {
    std::vector<float> point(61 * 61, 0);
    point[30 * 61 + 30] = 1;
    blur_picture({point, 61, 61, 1}, sigma);
    double sum = 0, spread = 0;
    for (int64_t y = 0; y < 61; ++y)
      for (int64_t x = 0; x < 61; ++x) {
        const double value = point[static_cast<size_t>(y * 61 + x)];
        REQUIRE(value == Approx(static_cast<double>(point[static_cast<size_t>(x * 61 + y)])).margin(1e-7));
        sum += value;
        spread += value * static_cast<double>((x - 30) * (x - 30));
      }
    CHECK(sum == Approx(1).margin(1e-5));
    if (sigma >= 1)
      CHECK(std::sqrt(spread) == Approx(static_cast<double>(sigma)).margin(0.03 * static_cast<double>(sigma)));
  }
  std::vector<float> tiny = {0, 1};
  blur_picture({tiny, 1, 2, 1}, 5);  // wider than the picture
  CHECK(tiny[0] == Approx(0.5).margin(0.1));
}

TEST_CASE("gamma is a power, exact at black and white") {
  for (const float gamma : {0.3F, 0.5F, 1.7F, 3.0F}) {
    std::vector<float> pixels;
    for (int i = 0; i <= 1000; ++i) pixels.push_back(static_cast<float>(i) / 1000);
    adjust_gamma(pixels, gamma);
    CHECK(pixels[0] == 0);
    CHECK(pixels[1000] == 1);
    for (int i = 0; i <= 1000; ++i)
      REQUIRE(std::abs(static_cast<double>(pixels[static_cast<size_t>(i)]) -
                       std::pow(i / 1000.0, static_cast<double>(gamma))) < 1e-6);
  }
}

TEST_CASE("noise is Gaussian, of its standard deviation, keyed, and stays in range") {
  std::vector<float> pixels(100003, 0.5F);
  add_noise(pixels, 0.1F, 77);
  std::vector<double> noise;
  int beyond = 0;
  double neighbours = 0;
  for (const float value : pixels) {
    noise.push_back((static_cast<double>(value) - 0.5) / 0.1);
    beyond += std::abs(noise.back()) > 1.959964 ? 1 : 0;
    if (noise.size() > 1) neighbours += noise.back() * noise[noise.size() - 2];
  }
  const Moments of = moments_of(noise);
  CHECK(std::abs(of.mean) < 0.02);
  CHECK(of.deviation == Approx(1).margin(0.01));
  CHECK(std::abs(beyond / 100003.0 - 0.05) < 0.004);
  CHECK(std::abs(neighbours / 100003.0) < 0.02);
  std::vector<float> again(100003, 0.5F), other = again;
  add_noise(again, 0.1F, 77);
  add_noise(other, 0.1F, 78);
  CHECK(again == pixels);
  CHECK(other != pixels);
  std::vector<float> loud(5000, 0.9F);
  add_noise(loud, 1, 1);
  for (const float value : loud) REQUIRE((value >= 0 && value <= 1));
}

TEST_CASE("cutout puts the mean, zero for the network, into its rectangle, and into no mask") {
  const Image image = random_image(20, 40, 3, 2);
  ImageOptions options;
  options.height = 20;
  options.width = 40;
  AugmentDraw draw;
  draw.cutout = 0.5;
  const std::vector<float> whole = transformed(image, options, {});
  const std::vector<float> cut = transformed(image, options, draw);
  int zeros = 0;
  for (size_t i = 0; i < cut.size(); ++i) {
    const size_t y = i / 120, x = i / 3 % 40;
    const bool inside = y >= 5 && y < 15 && x >= 10 && x < 30;
    REQUIRE(cut[i] == (inside ? Approx(0).margin(1e-6) : Approx(whole[i])));
    zeros += inside ? 1 : 0;
  }
  CHECK(zeros == 600);
  draw.cutout_y = draw.cutout_x = 0;  // at the corner a quarter of it
  const std::vector<float> corner = transformed(image, options, draw);
  CHECK(corner[0] == Approx(0).margin(1e-6));
  CHECK(corner[(4 * 40 + 9) * 3] == Approx(0).margin(1e-6));
  CHECK(corner[(5 * 40 + 9) * 3] == whole[(5 * 40 + 9) * 3]);
  CHECK(placed(patches(20, 40), options, draw) == placed(patches(20, 40), options, {}));
}

TEST_CASE("draws cover their ranges evenly, and no kind changes what another draws") {
  const AugmentOptions options = everything();
  std::vector<double> rotate, scale, down, gamma, noise, area, aspect, blur;
  AugmentOptions alone;
  alone.rotate = 20;
  for (uint64_t id = 0; id < 4000; ++id) {
    const AugmentDraw draw = draw_augmentation(options, 1, 0, id);
    REQUIRE(draw_augmentation(alone, 1, 0, id).rotate == draw.rotate);
    rotate.push_back(draw.rotate / 20);
    scale.push_back((draw.scale - 1) / 0.2);
    down.push_back(draw.translate_y / 0.2);
    gamma.push_back(std::log(static_cast<double>(draw.gamma)) / std::log(1.3));
    noise.push_back(static_cast<double>(draw.noise) / 0.1 * 2 - 1);
    area.push_back((draw.crop_area - 0.3) / 0.7 * 2 - 1);
    aspect.push_back(std::log(draw.crop_aspect) / std::log(4.0 / 3));
    blur.push_back(static_cast<double>(draw.blur) * 2 - 1);
  }
  for (const auto* values : {&rotate, &scale, &down, &gamma, &noise, &area, &aspect, &blur}) {
    const Moments of = moments_of(*values);  // even in [-1, 1]: 0 and 1/√3
    CHECK(std::abs(of.mean) < 0.05);
    CHECK(of.deviation == Approx(0.577).margin(0.02));
    for (const double value : *values) REQUIRE(std::abs(value) < 1 + 1e-6);
  }
  double together = 0;
  for (size_t i = 0; i < rotate.size(); ++i) together += rotate[i] * scale[i];
  CHECK(std::abs(together / 4000) < 0.03);
}

TEST_CASE("with everything on, batches are the same for any threads, prefetch and order, and fresh every epoch") {
  const TempFolder root;
  for (int i = 0; i < 12; ++i) {
    root.picture("images/" + std::to_string(i) + ".png", random_image(40 + i, 52, 1, static_cast<unsigned>(i)));
    Image mask = random_image(40 + i, 52, 1, static_cast<unsigned>(i));
    for (uint8_t& value : mask.bytes) value = value > 128 ? 255 : 0;
    root.picture("masks/" + std::to_string(i) + ".png", mask);
  }
  DataOptions options = options_for("image_mask", root.path());
  options.image.height = options.image.width = 32;
  options.image.channels = 1;
  options.augment = everything();
  const Dataset data = open_dataset(options, Task::from_format, 1);
  std::vector<Batch> first;
  for (const int64_t threads : {1, 4})
    for (const int64_t prefetch : {1, 6}) {
      options.loader.threads = threads;
      options.loader.prefetch = prefetch;
      Loader loader(data, options, 9, at::MemoryFormat::ChannelsLast, no_trace);
      loader.start({{{0, 1, 2, 3}, 1},
                    {{4, 5, 6, 7}, 1},
                    {{8, 9, 10, 11}, 1},
                    {{3, 2, 1, 0}, 1},
                    {{0, 1, 2, 3}, 2},
                    {{0, 1, 2, 3}, std::nullopt}});
      std::vector<Batch> batches;
      while (std::optional<Batch> batch = loader.next()) batches.push_back(std::move(*batch));
      REQUIRE(batches.size() == 6);
      if (first.empty()) first = batches;
      for (size_t i = 0; i < batches.size(); ++i) {
        CHECK(at::equal(batches[i].images, first[i].images));
        CHECK(at::equal(batches[i].targets, first[i].targets));
      }
    }
  CHECK(at::equal(first[0].images[1], first[3].images[2]));
  CHECK_FALSE(at::equal(first[0].images, first[4].images));
  options.augment = {};
  Loader plain(data, options, 9, at::MemoryFormat::ChannelsLast, no_trace);
  plain.start({{{0, 1, 2, 3}, 7}});
  CHECK(at::equal(plain.next()->images, first[5].images));  // evaluation: no augmentation
}
