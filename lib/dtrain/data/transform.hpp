#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/io/image.hpp"

namespace dtrain {

/// What augmentation does to one sample, drawn once and applied to image and mask alike (brightness and contrast to the
/// image only). In this order: mirrored left to right, top to bottom, turned, brightness, contrast; the last two as
/// torchvision's adjust_brightness and adjust_contrast, clamped to [0, 1]. The default does nothing.
struct AugmentDraw {
  bool hflip = false;
  bool vflip = false;
  int quarter_turns = 0;  ///< counter-clockwise, 0…3
  float brightness = 1;
  float contrast = 1;
};

/// Keyed by (seed, epoch, sample id): the same on whatever process, thread or order.
AugmentDraw draw_augmentation(const AugmentOptions& options, uint64_t seed, int64_t epoch, uint64_t sample_id);

/// Decoded picture → float32 HWC [height × width × channels] in `out`: channels converted, resized bilinearly with
/// antialiasing (as torchvision's Resize with antialias on float input, within 1e-5 of pixels in [0, 1]), augmented,
/// then (pixel − mean) ÷ std with pixels scaled to [0, 1] by their bit depth. What resize pad adds is black (0 before
/// normalisation). Throws ConfigError for a turn of a canvas that is not square.
void transform_image(const Image& image, const ImageOptions& options, const AugmentDraw& draw, std::span<float> out);

/// Mask of class indices → `classes` planes of 0 and 1, CHW [classes × height × width] in `out`: nearest neighbour by
/// pixel centres, the same geometry as the image; what pad adds is background. Throws like transform_image.
void transform_mask(const Image& mask, const ImageOptions& options, const AugmentDraw& draw, int64_t classes,
                    std::span<float> out);

}  // namespace dtrain
