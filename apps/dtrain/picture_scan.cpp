#include "picture_scan.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <thread>

#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/data/mask_values.hpp"
#include "dtrain/data/packed_set.hpp"
#include "dtrain/dist/launch.hpp"
#include "dtrain/io/file.hpp"
#include "dtrain/io/tiff_pages.hpp"

namespace dtrain {
namespace {

// The first bytes of a file tell its header, unless long profiles stand before it.
ImageHeader header_of(const std::string& path) {
  if (picture_path(path).page > 0) return read_image_header(read_picture_file(path), path);
  try {
    return read_image_header(read_file_start(path, 1 << 16), path);
  } catch (const DataError&) {
    return read_image_header(read_file(path), path);
  }
}

// Headers alone: sizes of picture and masks. A record is read whole, because its checksum is over all of it.
ImageHeader look_at_headers(const Dataset& dataset, int64_t index) {
  const Sample& sample = dataset.samples[static_cast<size_t>(index)];
  if (dataset.packed) {  // picture and mask have one size by their index
    const PackedEntry entry = dataset.packed->shard(sample.place).entry(sample.place.number);
    return {entry.height, entry.width, entry.channels, entry.bits};
  }
  SampleFiles files;
  if (dataset.records) files = read_sample_files(dataset, index);
  const ImageHeader picture = dataset.records ? read_image_header(files.picture, picture_name(dataset, index))
                                              : header_of(dataset.root + "/" + sample.path);
  for (size_t i = 0; i < sample.masks.size(); ++i) {
    const std::string& name = sample.masks[i];
    const ImageHeader mask =
        dataset.records ? read_image_header(files.masks[i], name) : header_of(dataset.root + "/" + name);
    if (mask.height != picture.height || mask.width != picture.width)
      throw DataError(sample.path + " is " + std::to_string(picture.height) + "x" + std::to_string(picture.width) +
                      ", but its mask " + name + " is " + std::to_string(mask.height) + "x" +
                      std::to_string(mask.width));
  }
  return picture;
}

template <typename Value>
bool is_grey(const std::vector<Value>& values) {
  for (size_t i = 0; i + 2 < values.size(); i += 3)
    if (values[i] != values[i + 1] || values[i] != values[i + 2]) return false;
  return true;
}

template <typename Value>
void keep_first_of_three(std::vector<Value>& values) {
  for (size_t i = 0; 3 * i < values.size(); ++i) values[i] = values[3 * i];
  values.resize(values.size() / 3);
}

struct Extent {
  int64_t lowest = 0;
  int64_t highest = 0;
};

template <typename Value>
Extent extent_of(const std::vector<Value>& values) {
  const auto [lowest, highest] = std::minmax_element(values.begin(), values.end());
  return {*lowest, *highest};
}

Extent extent_of(const Image& picture) {
  return picture.bits == 8 ? extent_of(picture.bytes) : extent_of(picture.words);
}

// The same for the same picture, however its file is written, grey in three channels too. Takes the picture apart.
std::string hash_of_pixels(Image& picture) {
  if (picture.channels == 3 && is_grey(picture.bytes) && is_grey(picture.words)) {
    picture.channels = 1;
    keep_first_of_three(picture.bytes);
    keep_first_of_three(picture.words);
  }
  return Sha256()
      .update(std::to_string(picture.height) + "x" + std::to_string(picture.width) + "x" +
              std::to_string(picture.channels) + "x" + std::to_string(picture.bits) + ":")
      .update(std::as_bytes(std::span(picture.bytes)))
      .update(std::as_bytes(std::span(picture.words)))
      .hex_digest();
}

// "pictures 12,000/112,120  1,204 pictures/s  eta 00:01:23"
ProgressFields scan_fields(int64_t done, int64_t total, double seconds) {
  const double rate = static_cast<double>(done) / std::max(seconds, 1e-9);
  return {{"pictures " + with_commas(done) + "/" + with_commas(total), 3},
          {with_commas(static_cast<int64_t>(rate + 0.5)) + " pictures/s", 1},
          {"eta " + (done > 0 ? clock_text(static_cast<double>(total - done) / rate) : "?"), 2}};
}

}  // namespace

PictureFacts look_at_pictures(const Experiment& e, const Plan& plan, bool quick, ProgressMode mode, const Log& log) {
  const Dataset& dataset = plan.dataset;
  const bool on_disk = dataset.format != DataFormat::synthetic;
  PictureFacts facts;
  facts.mask_pixels.resize(dataset.samples.size());
  facts.masks.listed = dataset.mask_values;
  facts.pixels.range_low = e.data.image.range_low;
  facts.pixels.range_high = e.data.image.range_high;
  std::mutex mutex;
  std::condition_variable ended;
  std::atomic<size_t> next{0};
  std::atomic<int64_t> done{0};
  size_t working = bound_cores().size();
  std::exception_ptr failure;
  const auto note_kind = [&](const ImageHeader& picture) {
    const PixelKind kind = pixel_kind(picture, e.data.image);
    const std::lock_guard lock(mutex);
    facts.kind = facts.kind.with(kind);
    facts.largest_bytes =
        std::max(facts.largest_bytes, picture.height * picture.width * picture.channels * (picture.bits / 8));
  };
  // Those of one value, as empty slices of a volume, are no duplicates of each other.
  const auto look_at_pixels = [&](int64_t index, Image& picture) {
    const Extent extent = extent_of(picture);
    const int bits = picture.bits;
    const bool blank = extent.lowest == extent.highest;
    const Stopwatch hashing;
    const std::string content = blank ? "" : hash_of_pixels(picture);
    const double hash_s = hashing.seconds();
    const std::lock_guard lock(mutex);
    facts.pixels.add(dataset.samples[static_cast<size_t>(index)].path, bits, extent.lowest, extent.highest);
    facts.blank += blank ? 1 : 0;
    if (!blank) facts.by_content[content].push_back(index);
    facts.hash_s += hash_s;
  };
  const auto look = [&](int64_t index) {
    if (quick && on_disk) return note_kind(look_at_headers(dataset, index));
    const SampleFiles files = read_sample_files(dataset, index);
    Image picture = decode_picture(dataset, e.data, index, e.seed, files);
    if (dataset.task == Task::segmentation) {
      const Image mask = decode_mask(dataset, e.data, index, e.seed, files);
      require_same_size(dataset, index, picture, mask);
      facts.mask_pixels[static_cast<size_t>(index)] = count_mask_pixels(mask, plan.shape.outputs);
      const std::map<int64_t, int64_t> unlisted = unlisted_mask_values(dataset, index, files);
      const std::lock_guard lock(mutex);
      facts.masks.add(mask.height * mask.width, unlisted);
    }
    note_kind({picture.height, picture.width, picture.channels, picture.bits});
    if (on_disk) look_at_pixels(index, picture);
  };
  const auto work = [&] {
    for (size_t i = next++; i < dataset.samples.size(); i = next++) {
      try {
        try {
          look(static_cast<int64_t>(i));
        } catch (const Error& error) {
          const std::lock_guard lock(mutex);
          facts.bad.emplace(static_cast<int64_t>(i), error);
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
        next = dataset.samples.size();
      }
      ++done;
    }
    const std::lock_guard lock(mutex);
    if (--working == 0) ended.notify_one();
  };
  std::vector<std::jthread> threads;
  try {
    for (size_t t = 0, cores = working; t < cores; ++t) threads.emplace_back(work);
  } catch (...) {
    next = dataset.samples.size();
    throw;
  }
  ProgressLine progress(mode, read_launch().launched, log);
  const Stopwatch stopwatch;
  const auto total = static_cast<int64_t>(dataset.samples.size());
  {
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return working == 0; })) {
      lock.unlock();
      progress.show(done, total, [&] { return scan_fields(done, total, stopwatch.seconds()); });
      lock.lock();
    }
  }
  threads.clear();
  if (failure != nullptr) std::rethrow_exception(failure);
  for (auto& [content, samples] : facts.by_content) std::sort(samples.begin(), samples.end());
  return facts;
}

}  // namespace dtrain
