#include "dtrain/data/transform.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/data/resize.hpp"

namespace dtrain {

namespace {

/// Flips and turns as a walk over the source: pixel (y, x) of the result lies at start + y·down + x·right.
struct Walk {
  int64_t start = 0;
  int64_t down = 0;
  int64_t right = 0;
};

Walk walk_of(const AugmentDraw& draw, int64_t height, int64_t width) {
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

/// Normalisation of one channel: (pixel − mean) × factor.
struct Normal {
  std::array<float, 3> mean{};
  std::array<float, 3> factor{};
};

Normal normal_of(const ImageOptions& options) {
  constexpr std::array<double, 3> kMean = {0.485, 0.456, 0.406};  // ImageNet's, as torchvision's networks expect
  constexpr std::array<double, 3> kStd = {0.229, 0.224, 0.225};
  const auto channels = static_cast<size_t>(options.channels);
  check(options.mean.empty() || options.mean.size() == channels, "data.image.mean has one value per channel");
  check(options.std.empty() || options.std.size() == channels, "data.image.std has one value per channel");
  Normal normal;
  for (size_t c = 0; c < channels; ++c) {
    normal.mean[c] = static_cast<float>(!options.mean.empty() ? options.mean[c] : channels == 3 ? kMean[c] : 0.5);
    normal.factor[c] = static_cast<float>(1.0 / (!options.std.empty() ? options.std[c]
                                                 : channels == 3      ? kStd[c]
                                                                      : 0.5));
  }
  return normal;
}

template <int kFrom, int kTo>
void write_pixels(const std::vector<float>& pixels, const Walk& walk, const Normal& normal, int64_t height,
                  int64_t width, float* out) {
  for (int64_t y = 0; y < height; ++y) {
    const float* pixel = pixels.data() + (walk.start + y * walk.down) * kFrom;
    for (int64_t x = 0; x < width; ++x) {
      for (int c = 0; c < kTo; ++c) {
        const auto channel = static_cast<size_t>(c);
        *out++ = (pixel[kFrom == 1 ? 0 : c] - normal.mean[channel]) * normal.factor[channel];
      }
      pixel += walk.right * kFrom;
    }
  }
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

void transform_image(const Image& image, const ImageOptions& options, const AugmentDraw& draw, std::span<float> out) {
  check(options.channels == 1 || options.channels == 3, "data.image.channels is 1 or 3");
  check(image.channels == 1 || image.channels == 3, "a decoded picture has 1 or 3 channels");
  check(static_cast<int64_t>(out.size()) == options.height * options.width * options.channels,
        "the picture fits its place");
  const Walk walk = walk_of(draw, options.height, options.width);
  std::vector<float> pixels(static_cast<size_t>(options.height * options.width * image.channels));
  resize_picture(image, fit_picture(image.height, image.width, options), pixels.data());
  const bool coloured = image.channels == 3 && options.channels == 3;
  if (image.channels == 3 && !coloured) to_grey(pixels);
  if (draw.brightness != 1) adjust_brightness(pixels, draw.brightness);
  if (draw.contrast != 1) adjust_contrast(pixels, coloured ? 3 : 1, draw.contrast);
  const Normal normal = normal_of(options);
  if (coloured) return write_pixels<3, 3>(pixels, walk, normal, options.height, options.width, out.data());
  if (options.channels == 3) return write_pixels<1, 3>(pixels, walk, normal, options.height, options.width, out.data());
  write_pixels<1, 1>(pixels, walk, normal, options.height, options.width, out.data());
}

void transform_mask(const Image& mask, const ImageOptions& options, const AugmentDraw& draw, int64_t classes,
                    std::span<float> out) {
  const int64_t plane = options.height * options.width;
  check(static_cast<int64_t>(out.size()) == plane * classes, "the mask fits its place");
  const Walk walk = walk_of(draw, options.height, options.width);
  const Fit fit = fit_picture(mask.height, mask.width, options);
  const std::vector<int64_t> rows = nearest_pixels(fit.rows);
  const std::vector<int64_t> columns = nearest_pixels(fit.columns);
  std::fill(out.begin(), out.end(), 0.0F);
  for (int64_t place = 0; place < plane; ++place) {
    const int64_t source = walk.start + place / options.width * walk.down + place % options.width * walk.right;
    const int64_t y = rows[static_cast<size_t>(source / options.width)];
    const int64_t x = columns[static_cast<size_t>(source % options.width)];
    if (y < 0 || x < 0) continue;
    const int64_t found = mask.bytes[static_cast<size_t>(y * mask.width + x)];
    check(found <= classes, "a mask holds known classes");
    if (found > 0) out[static_cast<size_t>((found - 1) * plane + place)] = 1;
  }
}

}  // namespace dtrain
