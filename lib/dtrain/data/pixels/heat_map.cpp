#include "dtrain/data/pixels/heat_map.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/data/pixels/original_mask.hpp"
#include "dtrain/data/pixels/resize.hpp"
#include "dtrain/io/pictures/bitmap_text.hpp"

namespace dtrain {

namespace {

// The colours of heat 0, 1/4 … 1; between them they are mixed.
Colour heat_colour(float heat) {
  constexpr std::array<std::array<float, 3>, 5> kStops = {
      {{0, 0, 255}, {0, 255, 255}, {0, 255, 0}, {255, 255, 0}, {255, 0, 0}}};
  const float place = std::clamp(heat, 0.0F, 1.0F) * 4;
  const size_t stop = std::min<size_t>(static_cast<size_t>(place), 3);
  const float share = place - static_cast<float>(stop);
  Colour colour;
  for (size_t c = 0; c < 3; ++c)
    colour[c] = static_cast<uint8_t>(std::lround((1 - share) * kStops[stop][c] + share * kStops[stop + 1][c]));
  return colour;
}

}  // namespace

std::vector<float> heat_at_picture_size(const PlaneView& map, int64_t height, int64_t width,
                                        const ImageOptions& options) {
  check(static_cast<int64_t>(map.values.size()) == map.height * map.width && !map.values.empty(),
        "a class activation map has a value for each place");
  const auto [low, high] = std::minmax_element(map.values.begin(), map.values.end());
  const float span = *high - *low;
  std::vector<float> heat;
  for (const float value : map.values) heat.push_back(span > 0 ? (value - *low) / span : 0);
  const auto enlarged = [](int64_t from, int64_t to) { return AxisFit{from, static_cast<double>(to), 0, to}; };
  std::vector<float> seen(static_cast<size_t>(options.seen_height() * options.seen_width()));
  resize_plane(heat, {enlarged(map.height, options.seen_height()), enlarged(map.width, options.seen_width())},
               seen.data());
  return at_picture_size(seen, height, width, options);
}

void draw_heat(Image& picture, std::span<const float> heat) {
  check(
      picture.channels == 3 && picture.bits == 8 && static_cast<int64_t>(heat.size()) == picture.height * picture.width,
      "heat is laid over a picture of its size");
  for (size_t i = 0; i < heat.size(); ++i) {
    const Colour colour = heat_colour(heat[i]);
    for (size_t c = 0; c < 3; ++c) {
      uint8_t& value = picture.bytes[3 * i + c];
      value = static_cast<uint8_t>((value + colour[c] + 1) / 2);
    }
  }
}

}  // namespace dtrain
