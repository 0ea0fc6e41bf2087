#pragma once
#include <cstdint>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// Where one side of a picture is placed: `input` pixels are resized to `resized`, which begin at `offset` of a
/// canvas of `canvas` pixels (negative: that many are cut off). Integers from fit_picture(); augmentation also gives
/// fractions.
struct AxisFit {
  int64_t input = 0;
  double resized = 0;
  double offset = 0;
  int64_t canvas = 0;

  /// Pixels of the canvas whose centres the picture covers: [first(), last()), none if they are equal.
  int64_t first() const;
  int64_t last() const;
  /// The input pixel under `place`, counted in canvas pixels from the canvas's edge; outside [0, input) beyond the
  /// picture.
  double input_at(double place) const { return (place - offset) * static_cast<double>(input) / resized; }
};

struct Fit {
  AxisFit rows;
  AxisFit columns;
};

/// squash: to the canvas; pad: to fit inside, centred; crop: to cover, centred.
Fit fit_picture(int64_t height, int64_t width, const ImageOptions& options);

/// For each pixel of the canvas the nearest input pixel by pixel centres, −1 outside the picture.
std::vector<int64_t> nearest_pixels(const AxisFit& fit);

/// True if data.image.range differs from 0 … white for a picture of that depth.
bool has_range(const ImageOptions& options, int bits);

/// Resizes bilinearly with antialiasing: the triangle filter of PIL and torchvision (align_corners = false), its
/// support widened by the scale when shrinking. `out` is float32 HWC [rows.canvas × columns.canvas × picture.channels],
/// pixels in [0, 1] by data.image.range, which is applied before, or the picture's bit depth; 0 outside the picture.
/// `fit` is of the picture's size.
void resize_picture(const Image& picture, const Fit& fit, const ImageOptions& options, float* out);

/// The same of one channel of floats, [rows.input × columns.input], whatever their range.
void resize_plane(const std::vector<float>& values, const Fit& fit, float* out);

}  // namespace dtrain
