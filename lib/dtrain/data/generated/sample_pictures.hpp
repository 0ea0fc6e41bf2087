#pragma once
#include <cstdint>
#include <vector>

#include "dtrain/base/random.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

// The pictures of write_sample_set(). Each is a pure function of its arguments. What a picture shows is laid out for
// its kind's own size, and stretched to another; noise is by pixel.

struct PictureSize {
  int64_t height = 0;
  int64_t width = 0;
};
inline constexpr PictureSize kXraySize{256, 256};
inline constexpr PictureSize kChipSize{128, 128};
inline constexpr PictureSize kCellSize{128, 160};

/// A chest in grey: the body by `patient`, noise and the place of marks by `visit`. `findings`: numbers 0 … 13, each
/// shown as its own mark: seven shapes, small and large.
Image xray_picture(uint64_t seed, int64_t patient, int64_t visit, const std::vector<int64_t>& findings,
                   PictureSize size = kXraySize);

/// A chip in RGB: a grid of pads, with a scratch or a blot if `defect`.
Image chip_picture(uint64_t seed, int64_t number, bool defect, PictureSize size = kChipSize);

struct CellPicture {
  Image picture;  ///< grey
  Image mask;     ///< 255 = cell
};

/// Bright round cells on uneven light, with noise.
CellPicture cell_picture(uint64_t seed, int64_t number, PictureSize size = kCellSize);

}  // namespace dtrain
