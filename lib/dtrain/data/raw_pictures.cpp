#include "dtrain/data/raw_pictures.hpp"

#include <algorithm>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/data/resize.hpp"

namespace dtrain {

namespace {

// Pixels [count × from] to [count × to], 1 to 1, 3 to 3 or grey repeated.
template <typename Value>
void repeat_channels(const Value* from, int64_t count, int64_t from_channels, int64_t to_channels, Value* to) {
  if (from_channels == to_channels) {
    std::copy_n(from, count * to_channels, to);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < to_channels; ++c) *to++ = from[i];
}

bool is_resized(const AxisFit& fit) { return fit.input != fit.resized; }

// A picture that is not resized, cut to the canvas or black where it does not reach.
void place_bytes(const Image& picture, const Fit& fit, int64_t channels, uint8_t* out) {
  const auto first_of = [](const AxisFit& axis) { return std::max<int64_t>(0, axis.offset); };
  const auto last_of = [](const AxisFit& axis) { return std::min(axis.canvas, axis.offset + axis.resized); };
  std::fill(out, out + fit.rows.canvas * fit.columns.canvas * channels, uint8_t{0});
  const int64_t begin = first_of(fit.columns);
  for (int64_t y = first_of(fit.rows); y < last_of(fit.rows); ++y) {
    const int64_t source = (y - fit.rows.offset) * picture.width + begin - fit.columns.offset;
    repeat_channels(picture.bytes.data() + source * picture.channels, last_of(fit.columns) - begin, picture.channels,
                    channels, out + (y * fit.columns.canvas + begin) * channels);
  }
}

}  // namespace

PixelKind pixel_kind(const ImageHeader& picture, const ImageOptions& options) {
  const Fit fit = fit_picture(picture.height, picture.width, options);
  const bool computed = is_resized(fit.rows) || is_resized(fit.columns) || picture.channels > options.channels ||
                        has_range(options, picture.bits);
  return {picture.bits == 8 && !computed, std::min(picture.channels, options.channels)};
}

void raw_image(const Image& picture, const ImageOptions& options, const PixelKind& kind, std::span<std::byte> out) {
  check(kind.holds(pixel_kind({picture.height, picture.width, picture.channels, picture.bits}, options)),
        "a picture is kept as a kind that holds it");
  check(static_cast<int64_t>(out.size()) == kind.picture_bytes(options), "the raw picture fits its place");
  const Fit fit = fit_picture(picture.height, picture.width, options);
  if (kind.bytes) return place_bytes(picture, fit, kind.channels, reinterpret_cast<uint8_t*>(out.data()));
  const std::vector<float> pixels = resized_pixels(picture, options);
  const int64_t plane = options.height * options.width;
  repeat_channels(pixels.data(), plane, static_cast<int64_t>(pixels.size()) / plane, kind.channels,
                  reinterpret_cast<float*>(out.data()));
}

void raw_mask(const Image& mask, const ImageOptions& options, int64_t classes, std::span<uint8_t> out) {
  check(static_cast<int64_t>(out.size()) == options.height * options.width, "the raw mask fits its place");
  const Fit fit = fit_picture(mask.height, mask.width, options);
  const std::vector<int64_t> columns = nearest_pixels(fit.columns);
  auto place = out.begin();
  for (const int64_t y : nearest_pixels(fit.rows))
    for (const int64_t x : columns) {
      const bool reached = y >= 0 && x >= 0;
      *place = reached ? mask.bytes[static_cast<size_t>(y * mask.width + x)] : uint8_t{0};
      check(*place++ <= classes, "a mask holds known classes");
    }
}

}  // namespace dtrain
