#include "dtrain/draft/survey.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/parallel.hpp"

namespace dtrain {

namespace {

// `most` of `count` numbers from 0, spread evenly.
std::vector<int64_t> spread(int64_t count, int64_t most) {
  std::vector<int64_t> numbers;
  const int64_t taken = std::min(count, most);
  for (int64_t i = 0; i < taken; ++i) numbers.push_back(i * count / taken);
  return numbers;
}

template <typename Value>
void count_values(const std::vector<Value>& values, std::map<int64_t, int64_t>& counts) {
  std::vector<int64_t> all(size_t{1} << (8 * sizeof(Value)), 0);
  for (const Value value : values) ++all[value];
  for (size_t value = 0; value < all.size(); ++value)
    if (all[value] > 0) counts[static_cast<int64_t>(value)] += all[value];
}

std::map<int64_t, int64_t> values_of(const Image& image) {
  std::map<int64_t, int64_t> counts;
  image.bits == 8 ? count_values(image.bytes, counts) : count_values(image.words, counts);
  return counts;
}

template <typename Value>
bool is_coloured(const std::vector<Value>& values) {
  for (size_t i = 0; i + 2 < values.size(); i += 3)
    if (values[i] != values[i + 1] || values[i] != values[i + 2]) return true;
  return false;
}

/// Looks at samples, any number of them at once.
class Surveyor {
 public:
  explicit Surveyor(const Dataset& dataset) : dataset_(dataset) {
    survey_.pictures = static_cast<int64_t>(dataset.samples.size());
  }

  void read_header(int64_t index) {
    guarded(index, [&] {
      const ImageHeader header = dataset_.store->header(dataset_.samples[static_cast<size_t>(index)]);
      const std::lock_guard lock(mutex_);
      ++survey_.headers;
      ++survey_.sizes[{header.height, header.width}];
      survey_.coloured += header.channels == 3 ? 1 : 0;
    });
  }

  void decode(int64_t index) {
    guarded(index, [&] {
      const SampleFiles files = read_sample_files(dataset_, index);
      const Image picture = decode_picture(dataset_, index, files);
      const std::map<int64_t, int64_t> values = values_of(picture);
      const bool coloured = picture.channels == 3 && (is_coloured(picture.bytes) || is_coloured(picture.words));
      {
        const std::lock_guard lock(mutex_);
        ++survey_.decoded;
        survey_.decoded_colour += coloured ? 1 : 0;
        survey_.pixels.add(dataset_.samples[static_cast<size_t>(index)].path, picture.bits, values.begin()->first,
                           values.rbegin()->first);
      }
      if (dataset_.task == Task::segmentation) count_masks(index, files);
    });
  }

  Survey result() && { return std::move(survey_); }

 private:
  template <typename Look>
  void guarded(int64_t index, const Look& look) {
    try {
      look();
    } catch (const Error& error) {
      const std::lock_guard lock(mutex_);
      survey_.bad.emplace(index, error.what());
    }
  }

  void count_masks(int64_t index, const SampleFiles& files) {
    std::map<int64_t, int64_t> counts;
    int64_t all = 0;
    int64_t masks = 0;
    for (const Image& mask : dataset_.store->raw_masks(dataset_.samples[static_cast<size_t>(index)], files)) {
      all = mask.height * mask.width;
      ++masks;
      for (const auto& [value, pixels] : values_of(mask)) counts[value] += pixels;
    }
    // Several masks of a sample are merged: what is 0 in all of them is background.
    if (const auto zero = counts.find(0); zero != counts.end())
      zero->second = std::max<int64_t>(0, zero->second - (masks - 1) * all);
    const std::lock_guard lock(mutex_);
    ++survey_.masks;
    survey_.mask_pixels += all;
    for (const auto& [value, pixels] : counts) {
      survey_.mask_values[value].pixels += pixels;
      ++survey_.mask_values[value].masks;
    }
  }

  const Dataset& dataset_;
  std::mutex mutex_;  // guards survey_
  Survey survey_;
};

int64_t median(std::vector<std::pair<int64_t, int64_t>> sides) {
  std::sort(sides.begin(), sides.end());
  int64_t all = 0;
  for (const auto& [side, count] : sides) all += count;
  int64_t seen = 0;
  for (const auto& [side, count] : sides)
    if (seen += count; 2 * seen >= all) return side;
  return 0;
}

}  // namespace

std::pair<int64_t, int64_t> Survey::median_size() const {
  std::vector<std::pair<int64_t, int64_t>> heights;
  std::vector<std::pair<int64_t, int64_t>> widths;
  for (const auto& [size, count] : sizes) {
    heights.emplace_back(size.first, count);
    widths.emplace_back(size.second, count);
  }
  return {median(heights), median(widths)};
}

Survey survey_of(const Dataset& dataset, const std::function<void(int64_t, int64_t)>& tick) {
  Surveyor surveyor(dataset);
  const auto count = static_cast<int64_t>(dataset.samples.size());
  const std::vector<int64_t> headers = spread(count, kMostHeaders);
  const std::vector<int64_t> decoded = spread(count, kMostDecoded);
  const size_t total = headers.size() + decoded.size();
  std::atomic<int64_t> done{0};
  run_in_parallel(
      total, bound_cores().size(),
      [&](size_t i) {
        i < headers.size() ? surveyor.read_header(headers[i]) : surveyor.decode(decoded[i - headers.size()]);
        ++done;
      },
      [&] {
        if (tick) tick(done, static_cast<int64_t>(total));
      });
  return std::move(surveyor).result();
}

bool looks_like_masks(const Dataset& dataset) {
  constexpr int64_t kLookedAt = 3;
  constexpr size_t kMostValues = 8;
  for (const int64_t index : spread(static_cast<int64_t>(dataset.samples.size()), kLookedAt)) {
    const SampleFiles files = read_sample_files(dataset, index);
    const size_t of_picture = values_of(decode_picture(dataset, index, files)).size();
    for (const Image& mask : dataset.store->raw_masks(dataset.samples[static_cast<size_t>(index)], files))
      if (const size_t of_mask = values_of(mask).size(); of_mask > kMostValues || of_mask >= of_picture) return false;
  }
  return true;
}

}  // namespace dtrain
