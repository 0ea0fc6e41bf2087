#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

// The way back from what a network says of the pixels that it saw to a mask of the picture's own size.

/// Probabilities of one class for the pixels that the network saw (options.seen_height() × seen_width()) → for those of
/// the picture, [height × width]: what the loader did to the picture undone, bilinearly, with the same filter as
/// resize_picture(). Where both have one size the values stay as they are. What the network has not seen (beyond
/// data.image.window, cut off by `resize: crop`) is 0; what `resize: pad` added is left out.
std::vector<float> at_picture_size(std::span<const float> seen, int64_t height, int64_t width,
                                   const ImageOptions& options);

/// Which pixel value a mask gets for the background and for each class, [classes + 1]: the inverse of
/// data.image_mask.mask_values (pixel value → class 1, 2, …; 0: background). Of several values for one class the
/// lowest. Background is 0 unless that is a class's value, else the first of 255, 1, 2 … that is none. Throws
/// ConfigError for a class without a value.
std::vector<int64_t> pixel_values_of(const std::map<int64_t, int64_t>& mask_values, int64_t classes);

/// The same for a network of `classes`, where mask_values speaks of those of a data set, `told`: of these classes may
/// be some, in another order.
std::vector<int64_t> pixel_values_of(const std::map<int64_t, int64_t>& mask_values,
                                     const std::vector<std::string>& told, const std::vector<std::string>& classes);

/// Classes of called_classes() as a mask [height × width], each written with its value of pixel_values_of(). 16 bits
/// where a value is above 255, else 8.
Image mask_of(const std::vector<uint8_t>& classes, int64_t height, int64_t width, const std::vector<int64_t>& values);

/// Probabilities [height × width] as a grey picture of 16 bits, in which 65535 is 1: round(65535 · p).
Image probability_picture(const std::vector<float>& probabilities, int64_t height, int64_t width);

}  // namespace dtrain
