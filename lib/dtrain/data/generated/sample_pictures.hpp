#pragma once
#include <cstdint>
#include <vector>

#include "dtrain/base/random.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

// The pictures of write_sample_set(). Each is a pure function of its arguments.

/// A chest of 256 × 256 grey pixels: the body by `patient`, noise and the place of marks by `visit`. `findings`:
/// numbers 0 … 13, each shown as its own mark: seven shapes, small and large.
Image xray_picture(uint64_t seed, int64_t patient, int64_t visit, const std::vector<int64_t>& findings);

/// A chip of 128 × 128 RGB pixels: a grid of pads, with a scratch or a blot if `defect`.
Image chip_picture(uint64_t seed, int64_t number, bool defect);

struct CellPicture {
  Image picture;  ///< 128 × 160 grey
  Image mask;     ///< 255 = cell
};

/// Bright round cells on uneven light, with noise.
CellPicture cell_picture(uint64_t seed, int64_t number);

}  // namespace dtrain
