#include "job/picture_scan.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "dtrain/base/hash.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/parallel.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/dist/launch.hpp"

namespace dtrain {
namespace {

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

// Equal for equal pictures, whatever their file format, also for grey in three channels. Changes the picture.
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

/// Examines samples, any number of them at once, and collects what it finds.
class PictureScan {
 public:
  PictureScan(const Experiment& e, const Plan& plan, bool quick) : e_(e), plan_(plan), quick_(quick) {
    facts_.mask_pixels.resize(plan.dataset.samples.size());
    facts_.masks.listed = plan.dataset.mask_values;
    facts_.pixels.range_low = e.data.image.range_low;
    facts_.pixels.range_high = e.data.image.range_high;
  }

  void look(int64_t index) {
    try {
      if (quick_ && on_disk())
        note_kind(plan_.dataset.store->header(plan_.dataset.samples[static_cast<size_t>(index)]));
      else
        decode(index);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex_);
      facts_.bad.emplace(index, error);
    }
  }

  PictureFacts facts() && {
    for (auto& [content, samples] : facts_.by_content) std::sort(samples.begin(), samples.end());
    return std::move(facts_);
  }

 private:
  bool on_disk() const { return plan_.dataset.store->on_disk(); }

  void decode(int64_t index) {
    const Dataset& dataset = plan_.dataset;
    const SampleFiles files = read_sample_files(dataset, index);
    Image picture = decode_picture(dataset, index, files);
    if (dataset.task == Task::segmentation) {
      const Image mask = decode_mask(dataset, index, files);
      require_same_size(dataset, index, picture, mask);
      facts_.mask_pixels[static_cast<size_t>(index)] =
          count_mask_pixels(mask, static_cast<int64_t>(plan_.outputs.size()));
      const std::map<int64_t, int64_t> unlisted = unlisted_mask_values(dataset, index, files);
      const std::lock_guard lock(mutex_);
      facts_.masks.add(mask.height * mask.width, unlisted, unlisted.empty() ? "" : mask_file(dataset, index));
    }
    note_kind({picture.height, picture.width, picture.channels, picture.bits});
    if (on_disk()) note_pixels(index, picture);
    const std::lock_guard lock(mutex_);
    ++facts_.looked;
  }

  void note_kind(const ImageHeader& picture) {
    const PixelKind kind = pixel_kind(picture, e_.data.image);
    const std::lock_guard lock(mutex_);
    facts_.kind = facts_.kind.with(kind);
    facts_.largest_bytes =
        std::max(facts_.largest_bytes, picture.height * picture.width * picture.channels * (picture.bits / 8));
  }

  // Pictures of a single value, such as empty slices of a volume, do not count as duplicates of each other.
  void note_pixels(int64_t index, Image& picture) {
    const Extent extent = extent_of(picture);
    const int bits = picture.bits;
    const bool blank = extent.lowest == extent.highest;
    const Stopwatch hashing;
    const std::string content = blank ? "" : hash_of_pixels(picture);
    const double hash_s = hashing.seconds();
    const std::lock_guard lock(mutex_);
    facts_.pixels.add(plan_.dataset.samples[static_cast<size_t>(index)].path, bits, extent.lowest, extent.highest);
    facts_.blank += blank ? 1 : 0;
    if (!blank) facts_.by_content[content].push_back(index);
    facts_.hash_s += hash_s;
  }

  const Experiment& e_;
  const Plan& plan_;
  const bool quick_;
  std::mutex mutex_;  // guards facts_ except mask_pixels, where each sample has its own entry
  PictureFacts facts_;
};

}  // namespace

PictureFacts look_at_pictures(const Experiment& e, const Plan& plan, bool quick, ProgressMode mode, const Log& log) {
  PictureScan scan(e, plan, quick);
  ProgressLine progress(mode, read_launch().launched, log);
  const Stopwatch stopwatch;
  const size_t samples = plan.dataset.samples.size();
  const auto total = static_cast<int64_t>(samples);
  std::atomic<int64_t> done{0};
  run_in_parallel(
      samples, bound_cores().size(),
      [&](size_t i) {
        scan.look(static_cast<int64_t>(i));
        ++done;
      },
      [&] { progress.show(done, total, [&] { return scan_fields(done, total, stopwatch.seconds()); }); });
  return std::move(scan).facts();
}

// Pairs of samples in two parts whose files have equal sizes, as copies have: at most `pairs` of them, those of the
// sizes that come first, of the samples that can be asked within `seconds`.
static std::vector<int64_t> of_equal_size(const Plan& plan, size_t pairs, double seconds) {
  const Dataset& data = plan.dataset;
  const Stopwatch stopwatch;
  std::map<std::string, int64_t> trained;  // what the manifest says of a sample's files → one of the training part
  std::set<std::pair<int64_t, int64_t>> found;
  for (const int64_t index : plan.split.train) {
    if (stopwatch.seconds() > seconds) return {};
    trained.emplace(data.store->manifest_text(data.samples[static_cast<size_t>(index)]), index);
  }
  for (const auto* part : {&plan.split.valid, &plan.split.test})
    for (const int64_t index : *part) {
      if (stopwatch.seconds() > 2 * seconds) return {};
      const auto twin = trained.find(data.store->manifest_text(data.samples[static_cast<size_t>(index)]));
      if (twin != trained.end()) found.emplace(twin->second, index);
    }
  std::vector<int64_t> some;
  for (const auto& [one, other] : found)
    if (some.size() < 2 * pairs) some.insert(some.end(), {one, other});
  return some;
}

// Their ids are hashes of their names.
static std::vector<int64_t> some_samples(const Plan& plan, size_t count) {
  std::vector<int64_t> all = plan.split.train;
  all.insert(all.end(), plan.split.valid.begin(), plan.split.valid.end());
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()));
  const auto id = [&](int64_t index) { return plan.dataset.samples[static_cast<size_t>(index)].id; };
  std::partial_sort(all.begin(), end, all.end(), [&](int64_t a, int64_t b) { return id(a) < id(b); });
  std::vector<int64_t> some;
  const auto add = [&](int64_t index) {
    if (some.size() < count && std::find(some.begin(), some.end(), index) == some.end()) some.push_back(index);
  };
  for (const int64_t index : of_equal_size(plan, count / 4, 0.2)) add(index);
  std::for_each(all.begin(), end, add);
  return some;
}

namespace {

// What a thread needs that may be left behind.
struct Glance {
  Glance(const Experiment& e, const Plan& p) : experiment(e), plan(p) {}
  const Experiment experiment;
  const Plan plan;
  PictureScan scan{experiment, plan, false};
  std::promise<PictureFacts> facts;
};

}  // namespace

PictureFacts glance_at_pictures(const Experiment& e, const Plan& plan) {
  constexpr size_t kPictures = 32;
  constexpr double kSeconds = 1;
  if (!plan.dataset.store->on_disk()) return {};
  const auto glance = std::make_shared<Glance>(e, plan);
  std::future<PictureFacts> facts = glance->facts.get_future();
  std::thread([glance] {
    try {
      const std::vector<int64_t> some = some_samples(glance->plan, kPictures);
      const Stopwatch stopwatch;
      run_in_parallel(some.size(), bound_cores().size(), [&](size_t i) {
        if (stopwatch.seconds() < kSeconds) glance->scan.look(some[i]);
      });
      glance->facts.set_value(std::move(glance->scan).facts());
    } catch (...) {
      glance->facts.set_exception(std::current_exception());
    }
  }).detach();
  if (facts.wait_for(std::chrono::duration<double>(2 * kSeconds)) != std::future_status::ready) return {};
  try {
    return facts.get();
  } catch (const Error&) {
    return {};  // training meets it too, and tells it
  }
}

}  // namespace dtrain
