#pragma once
#include <cstdint>
#include <optional>

#include "dtrain/data/options.hpp"
#include "dtrain/data/pixels/trivial_augment.hpp"

namespace dtrain {

/// What augmentation does to one sample, drawn once and applied to image and mask alike (blur, light, noise and cutout
/// to the image only). The default does nothing. In this order: cropped, enlarged, moved, turned by an angle and bent,
/// all in one resampling (placement.hpp); TrivialAugment's operation, of an image rounded to 8 bits; blur, brightness,
/// contrast, gamma, noise, cutout (pixel_effects.hpp); the window taken, mirrored left to right, top to bottom, turned
/// by quarters (walk_of).
struct AugmentDraw {
  bool hflip = false;
  bool vflip = false;
  int quarter_turns = 0;  ///< counter-clockwise, 0…3
  float brightness = 1;
  float contrast = 1;
  bool window = false;  ///< data.image.window is at the position below, instead of in the middle
  double window_y = 0;  ///< share of the possible positions, [0, 1)
  double window_x = 0;

  bool crop = false;       ///< the canvas shows a part of the picture, instead of what data.image.resize would
  double crop_area = 1;    ///< share of the picture, (0, 1]; less if it does not fit in its shape
  double crop_aspect = 1;  ///< width ÷ height against the undistorted, of `resize: squash` against the squashed one
  double crop_y = 0.5;     ///< its position, 0…1 of the available room
  double crop_x = 0.5;
  double rotate = 0;       ///< degrees about the middle of the canvas, counter-clockwise
  double scale = 1;        ///< enlargement, > 0
  double translate_y = 0;  ///< down, share of the canvas's height
  double translate_x = 0;  ///< to the right, share of its width
  double elastic = 0;      ///< standard deviation of the displacements, pixels of the canvas
  int64_t elastic_grid = 3;
  uint64_t elastic_key = 0;  ///< keys the displacements

  std::optional<TrivialDraw> trivial = {};

  float blur = 0;  ///< standard deviation, pixels
  float gamma = 1;
  float noise = 0;  ///< standard deviation, white is 1
  uint64_t noise_key = 0;
  double cutout = 0;  ///< share of height and of width
  double cutout_y = 0.5;
  double cutout_x = 0.5;  ///< its centre, share of the canvas

  /// It does nothing but take a window, flip and turn by quarters.
  bool moves_alone() const;
};

/// Keyed by (seed, epoch, sample id): the same on whatever process, thread or order. Each kind draws its own numbers:
/// switching one on leaves the others unchanged. `repeat`: how often the epoch has taken the sample before, below 2³¹.
AugmentDraw draw_augmentation(const AugmentOptions& options, uint64_t seed, int64_t epoch, uint64_t sample_id,
                              int64_t repeat = 0);

}  // namespace dtrain
