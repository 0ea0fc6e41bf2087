#pragma once
#include <cstdint>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/io/image.hpp"

namespace dtrain {

/// Where one side of a picture comes to lie: `input` pixels are resized to `resized`, whose first pixel lies at
/// `offset` of a canvas of `canvas` pixels (negative: that many are cut off).
struct AxisFit {
  int64_t input = 0;
  int64_t resized = 0;
  int64_t offset = 0;
  int64_t canvas = 0;
};

struct Fit {
  AxisFit rows;
  AxisFit columns;
};

/// squash: to the canvas; pad: to fit inside, centred; crop: to cover, centred.
Fit fit_picture(int64_t height, int64_t width, const ImageOptions& options);

/// For each pixel of the canvas the nearest input pixel by pixel centres, −1 where the picture does not reach.
std::vector<int64_t> nearest_pixels(const AxisFit& fit);

/// True where data.image.range says more of a picture of that depth than its own white does.
bool has_range(const ImageOptions& options, int bits);

/// Resizes bilinearly with antialiasing: the triangle filter of PIL and torchvision (align_corners = false), its
/// support widened by the scale when shrinking. `out` is float32 HWC [rows.canvas × columns.canvas × picture.channels],
/// pixels in [0, 1] by data.image.range, which is applied before, or the picture's bit depth; where the picture does
/// not reach, 0.
void resize_picture(const Image& picture, const ImageOptions& options, float* out);

}  // namespace dtrain
