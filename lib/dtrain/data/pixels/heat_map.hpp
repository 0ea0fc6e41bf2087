#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// Values over a picture, or over a coarser grid of it, row by row.
struct PlaneView {
  std::span<const float> values;
  int64_t height = 0;
  int64_t width = 0;
};

/// A class activation map → heat for each pixel of the picture, [height × width]: 0 for the map's lowest value to 1 for
/// its highest (0 everywhere if they are equal), enlarged bilinearly to what the network saw, then laid where
/// at_picture_size() lays it; what the network has not seen is 0.
std::vector<float> heat_at_picture_size(const PlaneView& map, int64_t height, int64_t width,
                                        const ImageOptions& options);

/// Lays heat over an 8-bit RGB picture, half of it shining through: blue for 0, over cyan, green and yellow to red for
/// 1. `heat`: one value per pixel; what lies beyond 0 … 1 counts as the nearer of both.
void draw_heat(Image& picture, std::span<const float> heat);

}  // namespace dtrain
