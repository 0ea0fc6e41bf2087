#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "dtrain/data/options.hpp"
#include "dtrain/data/pixels/transform.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// How the values of raw pictures are kept: pictures of data.image's size, before augmentation and normalisation.
/// Bytes if that loses nothing, so that kinds never change a result, only its cost.
struct PixelKind {
  bool bytes = true;     ///< uint8, white is 255; false: float32 in [0, 1]
  int64_t channels = 1;  ///< data.image.channels; grey pictures need one, whatever that is

  bool operator==(const PixelKind&) const = default;
  /// True if pictures of `other` can be kept as this kind.
  bool holds(const PixelKind& other) const { return channels >= other.channels && (!bytes || other.bytes); }
  /// The smallest kind that holds both.
  PixelKind with(const PixelKind& other) const {
    return {bytes && other.bytes, channels > other.channels ? channels : other.channels};
  }
  int64_t value_bytes() const { return bytes ? 1 : 4; }
  /// Of one raw picture.
  int64_t picture_bytes(const ImageOptions& size) const { return size.height * size.width * channels * value_bytes(); }
};

/// The smallest kind for a picture with this header: bytes if it has 8 bits and is neither resized nor converted from
/// colour to grey nor mapped by data.image.range.
PixelKind pixel_kind(const ImageHeader& picture, const ImageOptions& options);

/// Decoded picture → raw, HWC in `out` (options.height × options.width pixels of `kind`, which holds pixel_kind() of
/// it): what finish_pictures() of device/flat_math.hpp makes of it are transform_image()'s bits, if augmentation only
/// flips and turns.
void raw_image(const Image& picture, const ImageOptions& options, const PixelKind& kind, std::span<std::byte> out);

/// A raw picture of kind `from`, of `pixels` pixels, as one of kind `to`, which holds it: the same values.
void convert_raw(const std::byte* picture, const PixelKind& from, int64_t pixels, const PixelKind& to,
                 std::span<std::byte> out);

/// Mask of class indices → raw, one byte for each pixel, nearest neighbour by pixel centres; what pad adds is
/// background.
void raw_mask(const Image& mask, const ImageOptions& options, int64_t classes, std::span<uint8_t> out);

}  // namespace dtrain
