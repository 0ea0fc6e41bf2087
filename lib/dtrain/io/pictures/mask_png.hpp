#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// What the names of such files end in.
inline constexpr std::string_view kMaskEnding = ".png";

/// A mask as a PNG file: grey of 8 or 16 bits, every pixel value as it is. Rows are not filtered, which suits pictures
/// of few values; the bytes depend on the mask alone. Throws InternalError unless it has one channel and is not empty.
std::vector<std::byte> encode_mask_png(const Image& mask);

}  // namespace dtrain
