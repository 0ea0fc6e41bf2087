#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace dtrain {

/// The 95 % Hausdorff distance of two masks of one class, in pixels. The surface of a mask are its pixels with a
/// neighbour above, below, left or right that is not of the mask, or beyond the picture. Of each mask's surface the
/// distances to the nearest surface pixel of the other one are taken (Euclidean, between pixel centres, exact), and
/// of these the 95th percentile, between two of them linearly as in NumPy; the larger of both is the result.
///
/// Masks are row by row, [height × width] each, not 0 where the mask is. Nothing where one of them is empty.
std::optional<double> hausdorff_95(std::span<const uint8_t> one, std::span<const uint8_t> other, int64_t height,
                                   int64_t width);

}  // namespace dtrain
