#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "dtrain/data/dataset.hpp"

namespace dtrain {

/// How many pixels of the mask files of sample `index` have each of the values that mask_values does not list, so that
/// they count as background, but for 0, which is background by custom; nothing for a packed or synthetic sample.
/// `files`: the sample's, which decode_mask() takes.
std::map<int64_t, int64_t> unlisted_mask_values(const Dataset& dataset, int64_t index, const SampleFiles& files);

/// "masks/a.png": the first mask of sample `index`, for messages; its picture where no mask is a file.
std::string mask_file(const Dataset& dataset, int64_t index);

}  // namespace dtrain
