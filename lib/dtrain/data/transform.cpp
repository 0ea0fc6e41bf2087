#include "dtrain/data/transform.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/data/raw_pictures.hpp"
#include "dtrain/data/resize.hpp"
#include "dtrain/device/flat_math.hpp"

namespace dtrain {

namespace {

float luma(const float* pixel) { return 0.299F * pixel[0] + 0.587F * pixel[1] + 0.114F * pixel[2]; }

void to_grey(std::vector<float>& pixels) {
  const size_t count = pixels.size() / 3;
  for (size_t i = 0; i < count; ++i) pixels[i] = luma(&pixels[3 * i]);
  pixels.resize(count);
}

// torchvision's adjust_brightness: darker or brighter, kept in [0, 1].
void adjust_brightness(std::vector<float>& pixels, float factor) {
  for (float& value : pixels) value = std::clamp(value * factor, 0.0F, 1.0F);
}

// torchvision's adjust_contrast: away from or towards the mean grey, kept in [0, 1].
void adjust_contrast(std::vector<float>& pixels, size_t channels, float factor) {
  double sum = 0;
  for (size_t i = 0; i < pixels.size(); i += channels)
    sum += static_cast<double>(channels == 1 ? pixels[i] : luma(&pixels[i]));
  const auto mean = static_cast<float>(sum / (static_cast<double>(pixels.size()) / static_cast<double>(channels)));
  for (float& value : pixels) value = std::clamp(factor * value + (1 - factor) * mean, 0.0F, 1.0F);
}

}  // namespace

AugmentDraw draw_augmentation(const AugmentOptions& options, uint64_t seed, int64_t epoch, uint64_t sample_id) {
  // Every number is drawn whatever the options say, so that switching one kind on leaves the others as they were.
  KeyedRandom random(seed, Purpose::augmentation, static_cast<uint64_t>(epoch), sample_id);
  AugmentDraw draw;
  draw.hflip = random.chance(options.hflip);
  draw.vflip = random.chance(options.vflip);
  const bool turned = random.chance(options.rot90);
  const int turns = 1 + static_cast<int>(random.below(3));
  draw.quarter_turns = turned ? turns : 0;
  draw.brightness = static_cast<float>(random.uniform(1 - options.brightness, 1 + options.brightness));
  draw.contrast = static_cast<float>(random.uniform(1 - options.contrast, 1 + options.contrast));
  return draw;
}

PictureWalk walk_of(const AugmentDraw& draw, int64_t height, int64_t width) {
  if (draw.quarter_turns != 0 && height != width)
    throw ConfigError("data.augment.rot90 needs a square data.image.size, not " + std::to_string(height) + " × " +
                      std::to_string(width));
  const auto source = [&](int64_t y, int64_t x) {
    for (int turn = 0; turn < draw.quarter_turns; ++turn) y = std::exchange(x, width - 1 - y);
    if (draw.vflip) y = height - 1 - y;
    if (draw.hflip) x = width - 1 - x;
    return y * width + x;
  };
  const int64_t start = source(0, 0);
  return {start, source(1, 0) - start, source(0, 1) - start};
}

PictureForm picture_form(const ImageOptions& options) {
  constexpr std::array<double, 3> kMean = {0.485, 0.456, 0.406};  // ImageNet's, as torchvision's networks expect
  constexpr std::array<double, 3> kStd = {0.229, 0.224, 0.225};
  check(options.channels == 1 || options.channels == 3, "data.image.channels is 1 or 3");
  const auto channels = static_cast<size_t>(options.channels);
  check(options.mean.empty() || options.mean.size() == channels, "data.image.mean has one value per channel");
  check(options.std.empty() || options.std.size() == channels, "data.image.std has one value per channel");
  PictureForm form{options.height, options.width, options.channels};
  for (size_t c = 0; c < channels; ++c) {
    form.mean[c] = static_cast<float>(!options.mean.empty() ? options.mean[c] : channels == 3 ? kMean[c] : 0.5);
    form.factor[c] = static_cast<float>(1.0 / (!options.std.empty() ? options.std[c] : channels == 3 ? kStd[c] : 0.5));
  }
  return form;
}

std::vector<float> resized_pixels(const Image& image, const ImageOptions& options) {
  check(image.channels == 1 || image.channels == 3, "a decoded picture has 1 or 3 channels");
  std::vector<float> pixels(static_cast<size_t>(options.height * options.width * image.channels));
  resize_picture(image, options, pixels.data());
  if (image.channels > options.channels) to_grey(pixels);
  return pixels;
}

void transform_image(const Image& image, const ImageOptions& options, const AugmentDraw& draw, std::span<float> out) {
  const PictureForm form = picture_form(options);
  check(static_cast<int64_t>(out.size()) == options.height * options.width * options.channels,
        "the picture fits its place");
  const PictureWalk walk = walk_of(draw, options.height, options.width);
  std::vector<float> pixels = resized_pixels(image, options);
  const int64_t channels = std::min(image.channels, options.channels);
  if (draw.brightness != 1) adjust_brightness(pixels, draw.brightness);
  if (draw.contrast != 1) adjust_contrast(pixels, static_cast<size_t>(channels), draw.contrast);
  const RawPicture raw{pixels.data(), walk, 0, channels};
  host_math().finish_pictures(form, &raw, 1, out.data());
}

void transform_mask(const Image& mask, const ImageOptions& options, const AugmentDraw& draw, int64_t classes,
                    std::span<float> out) {
  check(static_cast<int64_t>(out.size()) == options.height * options.width * classes, "the mask fits its place");
  std::vector<uint8_t> pixels(static_cast<size_t>(options.height * options.width));
  raw_mask(mask, options, classes, pixels);
  const RawPicture raw{pixels.data(), walk_of(draw, options.height, options.width), 1, 1};
  host_math().finish_masks(picture_form(options), &raw, 1, classes, out.data());
}

}  // namespace dtrain
