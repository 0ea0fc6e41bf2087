#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/data/pixels/augment.hpp"
#include "dtrain/device/picture_rules.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// The draw's window, flips and turns, over a picture of options.height × width. Throws ConfigError for a turn of a
/// picture that is not square.
PictureWalk walk_of(const AugmentDraw& draw, const ImageOptions& options);

/// Size, channels and normalisation of what the network reads, data.image.mean and std or their defaults.
PictureForm picture_form(const ImageOptions& options);

/// Decoded picture → floats in [0, 1] by data.image.range or its bit depth, HWC, at options.height × width: resized
/// bilinearly with antialiasing (as torchvision's Resize with antialias on float input, within 1e-5), colour converted
/// to grey if options.channels is 1. What resize pad adds is 0.
std::vector<float> resized_pixels(const Image& image, const ImageOptions& options);

/// Decoded picture → float32 HWC [seen_height × seen_width × channels] in `out`: resized and augmented as AugmentDraw
/// says, then (pixel − mean) ÷ std, grey repeated for every channel. Throws like walk_of.
void transform_image(const Image& image, const ImageOptions& options, const AugmentDraw& draw, std::span<float> out);

/// Mask of class indices → `classes` planes of 0 and 1, CHW [classes × seen_height × seen_width] in `out`: nearest
/// neighbour by pixel centres, the same geometry as the image; what lies beyond the mask is background. Throws like
/// transform_image.
void transform_mask(const Image& mask, const ImageOptions& options, const AugmentDraw& draw, int64_t classes,
                    std::span<float> out);

}  // namespace dtrain
