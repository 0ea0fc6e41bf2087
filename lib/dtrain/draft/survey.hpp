#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/advice/pixel_advice.hpp"
#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// What a look at some of the pictures of a data set found.
struct Survey {
  int64_t pictures = 0;                                  ///< of the data set
  int64_t headers = 0;                                   ///< whose headers were read, spread evenly
  std::map<std::pair<int64_t, int64_t>, int64_t> sizes;  ///< (height, width) → pictures
  int64_t coloured = 0;                                  ///< by their headers
  int64_t decoded = 0;                                   ///< spread evenly, at most kMostDecoded
  int64_t decoded_colour = 0;          ///< of these: whose channels differ, so that they are not grey in three channels
  PixelFacts pixels;                   ///< of the decoded ones
  std::map<int64_t, std::string> bad;  ///< of those looked at: that cannot be read, and why

  struct MaskValue {
    int64_t masks = 0;
    int64_t pixels = 0;
  };
  int64_t masks = 0;        ///< of pictures that were decoded
  int64_t mask_pixels = 0;  ///< of their pictures
  std::map<int64_t, MaskValue>
      mask_values;  ///< pixel value of the mask files → where it is; 0 in all masks of a picture

  /// The median of the heights, and of the widths; 0 if no header could be read.
  std::pair<int64_t, int64_t> median_size() const;
};

constexpr int64_t kMostHeaders = 4000;
constexpr int64_t kMostDecoded = 48;

/// `tick(done, total)`: now and then, on the calling thread. What is wrong with a picture is counted, not thrown.
Survey survey_of(const Dataset& dataset, const std::function<void(int64_t done, int64_t total)>& tick = nullptr);

/// The masks of a few samples have few values, and fewer than their pictures.
bool looks_like_masks(const Dataset& dataset);

}  // namespace dtrain
