#pragma once
#include <cstdint>

namespace dtrain {

// From a raw picture to the network's input, one pixel at a time, for the CPU's loop and the GPU's kernel alike. Each
// operation is rounded to float32 separately, as in update_rules.hpp, so both give the same bits.

/// A window, flips and turns as a walk over the source: pixel (y, x) of the result comes from start + y·down + x·right,
/// counted in pixels.
struct PictureWalk {
  int64_t start = 0;
  int64_t down = 0;
  int64_t right = 0;
};

/// Most channels that a network is shown.
inline constexpr int64_t kMostChannels = 16;

/// What all results of a batch have in common.
struct PictureForm {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;              ///< 1 … kMostChannels
  float mean[kMostChannels] = {};    ///< of each channel, for pixels in [0, 1]
  float factor[kMostChannels] = {};  ///< 1 ÷ standard deviation
};

/// One picture or mask as it was stored, of the form's height and width or more, in memory of the device that works on
/// it.
struct RawPicture {
  const void* pixels = nullptr;  ///< HWC; a mask: uint8 class numbers, one channel, 0 = background
  PictureWalk walk;
  int64_t bytes = 1;     ///< 1: uint8, white is 255; 0: float32 in [0, 1]
  int64_t channels = 1;  ///< 1: grey, for every channel of the result; or the form's
};

constexpr float pixel_value(uint8_t byte) { return static_cast<float>(byte) * (1.0F / 255); }
constexpr float pixel_value(float value) { return value; }
constexpr float normalised(float pixel, float mean, float factor) { return (pixel - mean) * factor; }

}  // namespace dtrain
