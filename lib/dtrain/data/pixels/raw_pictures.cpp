#include "dtrain/data/pixels/raw_pictures.hpp"

#include <algorithm>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/data/pixels/placement.hpp"
#include "dtrain/data/pixels/resize.hpp"

namespace dtrain {

namespace {

// Copies pixels [count × from_channels] to [count × to_channels]: the same number, or grey repeated.
template <typename Value>
void repeat_channels(const Value* from, int64_t count, int64_t from_channels, int64_t to_channels, Value* to) {
  if (from_channels == to_channels) {
    std::copy_n(from, count * to_channels, to);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < to_channels; ++c) *to++ = from[i];
}

bool is_resized(const AxisFit& fit) { return static_cast<double>(fit.input) != fit.resized; }

// Copies a picture without resizing it, cropped to the canvas; black where it does not reach.
void place_bytes(const Image& picture, const Fit& fit, int64_t channels, uint8_t* out) {
  std::fill(out, out + fit.rows.canvas * fit.columns.canvas * channels, uint8_t{0});
  const int64_t begin = fit.columns.first();
  const auto [top, left] = std::pair{static_cast<int64_t>(fit.rows.offset), static_cast<int64_t>(fit.columns.offset)};
  for (int64_t y = fit.rows.first(); y < fit.rows.last(); ++y) {
    const int64_t source = (y - top) * picture.width + begin - left;
    repeat_channels(picture.bytes.data() + source * picture.channels, fit.columns.last() - begin, picture.channels,
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

void convert_raw(const std::byte* picture, const PixelKind& from, int64_t pixels, const PixelKind& to,
                 std::span<std::byte> out) {
  check(to.holds(from), "a picture is kept as a kind that holds it");
  check(static_cast<int64_t>(out.size()) == pixels * to.channels * to.value_bytes(), "the raw picture fits its place");
  if (to.bytes) {
    repeat_channels(reinterpret_cast<const uint8_t*>(picture), pixels, from.channels, to.channels,
                    reinterpret_cast<uint8_t*>(out.data()));
    return;
  }
  std::vector<float> values;
  const auto* floats = reinterpret_cast<const float*>(picture);
  if (from.bytes) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(picture);
    values.reserve(static_cast<size_t>(pixels * from.channels));
    for (int64_t i = 0; i < pixels * from.channels; ++i) values.push_back(pixel_value(bytes[i]));
    floats = values.data();
  }
  repeat_channels(floats, pixels, from.channels, to.channels, reinterpret_cast<float*>(out.data()));
}

void raw_mask(const Image& mask, const ImageOptions& options, int64_t classes, std::span<uint8_t> out) {
  check(static_cast<int64_t>(out.size()) == options.height * options.width, "the raw mask fits its place");
  place_mask(mask, options, {}, classes, out);
}

}  // namespace dtrain
