#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/data/pixels/augment.hpp"
#include "dtrain/data/pixels/resize.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

// Where the pixels of the canvas (data.image.size) come from: resizing, random crop, scale, translation, rotation and
// elastic bending are one map from the canvas to the picture, and pixels are sampled once. What is outside the
// picture is black, for a mask background.
// Crop, scale and translation are the resize itself, to another position and size, antialiased and with the file's full
// resolution. Rotation and bending follow as bilinear sampling of a picture that was resized to the scale at which it
// is shown.

/// The fit of a picture of that size under the draw's crop, scale and translation, without rotation and bending;
/// fit_picture() if it has none.
Fit placed_fit(int64_t height, int64_t width, const ImageOptions& options, const AugmentDraw& draw);

/// Decoded picture → floats in [0, 1], HWC [options.height × options.width × the lesser of both numbers of channels]:
/// colour is converted to grey if options.channels is 1. Bilinear. The picture is grey, or has options.channels, or is
/// coloured with options.channels 1.
std::vector<float> place_picture(const Image& picture, const ImageOptions& options, const AugmentDraw& draw);

/// Mask of class numbers → one byte for each pixel of the canvas, in `out`: the class at its centre, by the same map;
/// no value that is not in the mask. Throws InternalError for a class above `classes`.
void place_mask(const Image& mask, const ImageOptions& options, const AugmentDraw& draw, int64_t classes,
                std::span<uint8_t> out);

/// Grey of a colour (ITU-R 601).
inline float luma(const float* pixel) { return 0.299F * pixel[0] + 0.587F * pixel[1] + 0.114F * pixel[2]; }

/// The displacements of `elastic`, smooth from edge to edge: grid × grid points, spread evenly over the canvas, are
/// displaced by Gaussian numbers, and bicubic curves (Catmull and Rom 1974) join them.
class ElasticField {
 public:
  ElasticField(const AugmentDraw& draw, int64_t height, int64_t width);

  /// Of the pixels of row y: down and to the right, in pixels of the canvas.
  void row(int64_t y, float* down, float* right) const;
  /// In pixels of the canvas; no displacement that row() gives is larger.
  float bound() const { return bound_; }

 private:
  void axis_row(const std::vector<float>& points, int64_t y, float* out) const;

  int64_t height_;
  int64_t width_;
  int64_t grid_;
  std::vector<float> down_;  // of the points, [grid + 2]², one more beyond each edge
  std::vector<float> right_;
  float bound_ = 0;
};

}  // namespace dtrain
