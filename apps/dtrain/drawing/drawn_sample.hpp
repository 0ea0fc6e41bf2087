#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "dtrain/data/pixels/transform.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// In every contact sheet, as the PNG's text "Software".
inline constexpr const char* kContactSheetMark = "dtrain contact sheet";

// From a batch back to what people can look at.

/// Picture `i` of images [n, C, H, W], normalised by `options`, as it was before, in 8 bits and colour; of channels
/// that are no colours the one that stands for all (ImageOptions::shown_channel()).
Image drawn_picture(const at::Tensor& images, int64_t i, const ImageOptions& options);

/// Class of each pixel of a mask [K, H, W] of shares or of 0 and 1: the first that has at least half of it, counted
/// from 1; 0 = background.
std::vector<uint8_t> drawn_classes(const at::Tensor& mask);

}  // namespace dtrain
