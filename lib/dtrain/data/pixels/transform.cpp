#include "dtrain/data/pixels/transform.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/data/pixels/pixel_effects.hpp"
#include "dtrain/data/pixels/placement.hpp"
#include "dtrain/data/pixels/raw_pictures.hpp"
#include "dtrain/data/pixels/trivial_augment.hpp"
#include "dtrain/device/flat_math.hpp"

namespace dtrain {

PictureWalk walk_of(const AugmentDraw& draw, const ImageOptions& options) {
  const int64_t height = options.seen_height(), width = options.seen_width();
  if (draw.quarter_turns != 0 && height != width)
    throw ConfigError("data.augment.rot90 needs a square picture, not " + std::to_string(height) + " × " +
                      std::to_string(width));
  const auto first = [&](int64_t room, double place) {
    return draw.window ? static_cast<int64_t>(place * static_cast<double>(room + 1)) : room / 2;
  };
  const int64_t top = first(options.height - height, draw.window_y);
  const int64_t left = first(options.width - width, draw.window_x);
  const auto source = [&](int64_t y, int64_t x) {
    for (int turn = 0; turn < draw.quarter_turns; ++turn) y = std::exchange(x, width - 1 - y);
    if (draw.vflip) y = height - 1 - y;
    if (draw.hflip) x = width - 1 - x;
    return (top + y) * options.width + left + x;
  };
  const int64_t start = source(0, 0);
  return {start, source(1, 0) - start, source(0, 1) - start};
}

static_assert(ImageOptions::kMostChannels == kMostChannels);

PictureForm picture_form(const ImageOptions& options) {
  check(options.channels >= 1 && options.channels <= kMostChannels, "data.image.channels is 1 … 16");
  const auto channels = static_cast<size_t>(options.channels);
  check(options.mean.empty() || options.mean.size() == channels, "data.image.mean has one value per channel");
  check(options.std.empty() || options.std.size() == channels, "data.image.std has one value per channel");
  PictureForm form{options.seen_height(), options.seen_width(), options.channels};
  const std::vector<double> mean = options.mean.empty() ? usual_mean(options.channels) : options.mean;
  const std::vector<double> scale = options.std.empty() ? usual_std(options.channels) : options.std;
  for (size_t c = 0; c < channels; ++c) {
    form.mean[c] = static_cast<float>(mean[c]);
    form.factor[c] = static_cast<float>(1.0 / scale[c]);
  }
  return form;
}

std::vector<float> resized_pixels(const Image& image, const ImageOptions& options) {
  return place_picture(image, options, {});
}

// What is cut out becomes the mean, which the network sees as 0; for grey pictures the mean over all channels.
static std::vector<float> mean_pixel(const PictureForm& form, int64_t channels) {
  if (channels == form.channels) return {form.mean, form.mean + form.channels};
  float sum = 0;
  for (int64_t c = 0; c < form.channels; ++c) sum += form.mean[c];
  return {sum / static_cast<float>(form.channels)};
}

// TrivialAugment's operation, on pixels of 8 bits.
static void change_bytes(const TrivialDraw& draw, const ImageOptions& size, int64_t channels,
                         std::vector<float>& pixels) {
  std::vector<uint8_t> bytes(pixels.size());
  for (size_t i = 0; i < pixels.size(); ++i) bytes[i] = static_cast<uint8_t>(pixels[i] * 255 + 0.5F);
  apply_trivial(draw, {bytes, size.height, size.width, channels, size.is_stacked()});
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = pixel_value(bytes[i]);
}

void transform_image(const Image& image, const ImageOptions& options, const AugmentDraw& draw, std::span<float> out) {
  const PictureForm form = picture_form(options);
  check(static_cast<int64_t>(out.size()) == form.height * form.width * form.channels, "the picture fits its place");
  const PictureWalk walk = walk_of(draw, options);
  const PixelKind kind = pixel_kind({image.height, image.width, image.channels, image.bits}, options);
  if (kind.bytes && draw.moves_alone()) {  // no effect that bytes would round, so the bits stay the same
    const bool as_it_is = image.height == options.height && image.width == options.width;
    std::vector<std::byte> bytes(as_it_is ? 0 : static_cast<size_t>(kind.picture_bytes(options)));
    if (!as_it_is) raw_image(image, options, kind, bytes);
    const RawPicture raw{as_it_is ? static_cast<const void*>(image.bytes.data()) : bytes.data(), walk, 1,
                         kind.channels};
    return host_math().finish_pictures(form, &raw, 1, out.data());
  }
  std::vector<float> pixels = place_picture(image, options, draw);
  const int64_t channels = std::min(image.channels, options.channels);
  if (draw.trivial) change_bytes(*draw.trivial, options, channels, pixels);
  apply_effects(draw, {pixels, options.height, options.width, channels, options.is_stacked()},
                mean_pixel(form, channels));
  const RawPicture raw{pixels.data(), walk, 0, channels};
  host_math().finish_pictures(form, &raw, 1, out.data());
}

void transform_mask(const Image& mask, const ImageOptions& options, const AugmentDraw& draw, int64_t classes,
                    std::span<float> out) {
  const PictureForm form = picture_form(options);
  check(static_cast<int64_t>(out.size()) == form.height * form.width * classes, "the mask fits its place");
  std::vector<uint8_t> pixels(static_cast<size_t>(options.height * options.width));
  place_mask(mask, options, draw, classes, pixels);
  if (draw.trivial && moves_pixels(draw.trivial->op))
    apply_trivial(*draw.trivial, {pixels, options.height, options.width, 1});
  const RawPicture raw{pixels.data(), walk_of(draw, options), 1, 1};
  host_math().finish_masks(form, &raw, 1, classes, out.data());
}

}  // namespace dtrain
