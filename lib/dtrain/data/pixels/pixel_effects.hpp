#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/data/pixels/augment.hpp"

namespace dtrain {

/// Floats of a picture, HWC.
struct PixelField {
  std::vector<float>& pixels;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 1;
  bool stacked = false;  ///< the channels are pictures of their own, no colours (ImageOptions::is_stacked())
};

/// The draw's blur, brightness, contrast, gamma, noise and cutout, in this order, on pixels in [0, 1]; they stay in
/// this range. Brightness and contrast are torchvision's adjust_brightness and adjust_contrast, of each channel about
/// its own mean where these are no colours; what is cut out becomes `fill`, one value for each channel.
void apply_effects(const AugmentDraw& draw, const PixelField& picture, std::span<const float> fill);

// Its parts.

/// Gaussian blur with a standard deviation of `sigma` pixels, up to 3·sigma; edge pixels are repeated beyond the edges.
void blur_picture(const PixelField& picture, float sigma);
/// pixel^gamma, within 1e-6 of std::pow.
void adjust_gamma(std::span<float> pixels, float gamma);
/// Adds Gaussian noise keyed by `key` and clamps to [0, 1].
void add_noise(std::span<float> pixels, float sigma, uint64_t key);

}  // namespace dtrain
