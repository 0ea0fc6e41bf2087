#include "dtrain/data/mask_values.hpp"

#include <vector>

namespace dtrain {

std::map<int64_t, int64_t> unlisted_mask_values(const Dataset& dataset, int64_t index, const SampleFiles& files) {
  std::map<int64_t, int64_t> unlisted;
  const Sample& sample = dataset.samples[static_cast<size_t>(index)];
  for (size_t i = 0; i < files.masks.size(); ++i) {
    const Image mask = decode_mask_image(files.masks[i], sample.masks[i]);
    std::vector<int64_t> counts(size_t{1} << mask.bits, 0);
    for (const uint8_t value : mask.bytes) ++counts[value];
    for (const uint16_t value : mask.words) ++counts[value];
    for (size_t value = 1; value < counts.size(); ++value)
      if (counts[value] > 0 && !dataset.mask_values.contains(static_cast<int64_t>(value)))
        unlisted[static_cast<int64_t>(value)] += counts[value] / mask.channels;
  }
  return unlisted;
}

std::string mask_file(const Dataset& dataset, int64_t index) {
  const Sample& sample = dataset.samples[static_cast<size_t>(index)];
  return sample.masks.empty() ? sample.path : sample.masks.front();
}

}  // namespace dtrain
