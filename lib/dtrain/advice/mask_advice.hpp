#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dtrain/advice/finding.hpp"

namespace dtrain {

/// Pixel values of masks that data.image_mask.mask_values does not list.
struct MaskFacts {
  struct Seen {
    int64_t masks = 0;  ///< of samples, that hold the value
    int64_t pixels = 0;
  };
  int64_t masks = 0;                  ///< that were looked at
  int64_t pixels = 0;                 ///< of these
  std::string example;                ///< the first file by name that holds one
  std::map<int64_t, Seen> unlisted;   ///< by value; 0, the background, left out
  std::map<int64_t, int64_t> listed;  ///< mask_values: value → class

  /// For one sample: its pixels, and those of each unlisted value; `file`: for messages, if there are any.
  void add(int64_t all_pixels, const std::map<int64_t, int64_t>& pixels_of_value, const std::string& file);
};

/// `mask_values` lists 255 beside 1, 2 … without a gap: there it often marks pixels that are not to be judged.
bool has_ignored_value(const std::map<int64_t, int64_t>& mask_values);

/// 255 as a class where it may mark what is not to be judged; and values that are ignored, with the mask_values that
/// would include them.
std::vector<Finding> mask_advice(const MaskFacts& facts);

/// "'data.image_mask.mask_values={1: 1, 2: 2}'", quoted for a shell: each of `values` except 0 a separate class; "" for
/// none, or for 15 and more, which cannot be classes.
std::string mask_values_text(const std::vector<int64_t>& values);

}  // namespace dtrain
