#include "dtrain/data/store/dataset.hpp"

#include <algorithm>
#include <set>

#include "dtrain/base/error.hpp"

namespace dtrain {

static const Sample& sample_at(const Dataset& dataset, int64_t index) {
  return dataset.samples[static_cast<size_t>(index)];
}

int64_t SampleFiles::bytes() const {
  size_t sum = picture.size() + mapped.picture.size() + mapped.mask.size();
  for (const auto& channel : channels) sum += channel.size();
  for (const auto& mask : masks) sum += mask.size();
  return static_cast<int64_t>(sum);
}

SampleFiles read_sample_files(const Dataset& dataset, int64_t index) {
  return dataset.store->read(sample_at(dataset, index), SampleStore::Wanted::all);
}

std::string picture_name(const Dataset& dataset, int64_t index) {
  return dataset.store->picture_name(sample_at(dataset, index));
}

Image decode_picture(const Dataset& dataset, int64_t index, const SampleFiles& files) {
  return dataset.store->decode_picture(sample_at(dataset, index), files);
}

Image decode_mask(const Dataset& dataset, int64_t index, const SampleFiles& files) {
  return dataset.store->decode_mask(dataset, sample_at(dataset, index), files);
}

Image read_picture(const Dataset& dataset, int64_t index) {
  return decode_picture(dataset, index, dataset.store->read(sample_at(dataset, index), SampleStore::Wanted::picture));
}

Image read_mask(const Dataset& dataset, int64_t index) {
  return decode_mask(dataset, index, dataset.store->read(sample_at(dataset, index), SampleStore::Wanted::masks));
}

std::vector<int64_t> count_mask_pixels(const Image& mask, int64_t classes) {
  std::vector<int64_t> counts(static_cast<size_t>(classes) + 1, 0);
  for (const uint8_t number : mask.bytes) {
    check(number <= classes, "a mask holds no class beyond those of the data set");
    ++counts[number];
  }
  return counts;
}

std::vector<int64_t> mask_values_found(const Dataset& dataset, int64_t index) {
  constexpr size_t kMost = 16;
  const Sample& sample = sample_at(dataset, index);
  std::set<int64_t> values;
  for (const Image& mask : dataset.store->raw_masks(sample, dataset.store->read(sample, SampleStore::Wanted::masks))) {
    values.insert(mask.bytes.begin(), mask.bytes.end());
    values.insert(mask.words.begin(), mask.words.end());
  }
  std::vector<int64_t> found(values.begin(), values.end());
  found.resize(std::min(found.size(), kMost));
  return found;
}

std::map<int64_t, int64_t> unlisted_mask_values(const Dataset& dataset, int64_t index, const SampleFiles& files) {
  std::map<int64_t, int64_t> unlisted;
  for (const Image& mask : dataset.store->raw_masks(sample_at(dataset, index), files)) {
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
  const Sample& sample = sample_at(dataset, index);
  return sample.masks.empty() ? sample.path : sample.masks.front();
}

void require_same_size(const Dataset& dataset, int64_t index, const Image& picture, const Image& mask) {
  if (picture.height == mask.height && picture.width == mask.width) return;
  const auto size = [](const Image& image) {
    return std::to_string(image.height) + " × " + std::to_string(image.width);
  };
  throw DataError("the picture '" + sample_at(dataset, index).path + "' (" + size(picture) + ") and its mask '" +
                  mask_file(dataset, index) + "' (" + size(mask) +
                  ") differ in size; make the mask again at the picture's size");
}

}  // namespace dtrain
