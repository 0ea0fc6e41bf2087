#include "job/cache_plan.hpp"

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/base/memory.hpp"
#include "dtrain/base/text.hpp"
#include "job/planned_parts.hpp"

namespace dtrain {

CachePlan plan_cache(const Experiment& e, const Plan& plan, const PixelKind& kind, int ranks, int rank,
                     int64_t epochs) {
  const auto train = static_cast<int64_t>(plan.split.train.size());
  const auto valid = static_cast<int64_t>(plan.split.valid.size());
  const int64_t carried = part_of(plan.logical_ranks, ranks, rank).size();
  const int64_t an_epoch = std::min(train, train * carried / plan.logical_ranks + plan.local_batch);
  CachePlan cache;
  cache.samples = an_epoch >= train ? train : std::min(train, epochs * an_epoch);
  for (int64_t begin = rank * plan.local_batch; begin < valid; begin += ranks * plan.local_batch)
    cache.samples += std::min(valid - begin, plan.local_batch);
  cache.kind = kind;
  cache.megabytes = static_cast<double>(cache.samples) *
                    static_cast<double>(kept_bytes(kind, e.data.image, e.task == Task::segmentation)) / 1e6;
  return cache;
}

PixelKind first_kind(const Experiment& e, const Plan& plan) {
  try {
    const Image picture = read_picture(plan.dataset, plan.split.train.front());
    return pixel_kind({picture.height, picture.width, picture.channels, picture.bits}, e.data.image);
  } catch (const Error&) {
    return {};
  }
}

std::string cache_text(const Experiment& e, const CachePlan& cache) {
  const ImageOptions& size = e.data.image;
  return "up to " + with_commas(static_cast<int64_t>(cache.megabytes + 0.5)) + " MB for " +
         count_of(cache.samples, "picture") + " of " + std::to_string(size.height) + " x " +
         std::to_string(size.width) + " x " + std::to_string(cache.kind.channels) +
         (cache.kind.bytes ? " bytes" : " floats");
}

double ram_cache_mb(const Experiment& e, const Plan& plan) {
  constexpr size_t kLooks = 8;
  const std::vector<int64_t>& train = plan.split.train;
  double bytes = 0;
  int64_t looks = 0;
  for (size_t i = 0; i < std::min(kLooks, train.size()); ++i) {
    try {
      const int64_t index = train[i * train.size() / std::min(kLooks, train.size())];
      const Image picture = read_picture(plan.dataset, index);
      bytes +=
          static_cast<double>(SharedPictures::bytes_of({picture.height, picture.width, picture.channels, picture.bits},
                                                       e.task == Task::segmentation, e.data.image, keeps_raw(e)));
      ++looks;
    } catch (const DataError&) {
    }
  }
  const auto samples = static_cast<double>(train.size() + plan.split.valid.size());
  return looks == 0 ? 0 : bytes / static_cast<double>(looks) * samples / 1e6;
}

double free_host_mb() { return static_cast<double>(memory_budget().free_bytes) / 1e6; }

double memory_for_cache(const Device& device, int64_t sharers) {
  // Gradients, activations and cuDNN's workspace come on top.
  constexpr double kForPictures = 0.7;
  if (device.module != nullptr) return kForPictures * device.module->memory_free_mb() / static_cast<double>(sharers);
  return free_host_mb() / static_cast<double>(sharers);
}

void require_cache_fits(const Experiment& e, const CachePlan& cache, const Device& device, double free_mb) {
  if (cache.megabytes <= free_mb) return;
  throw ConfigError("data.loader.cache: device needs " + cache_text(e, cache) + ", but this process can have " +
                    with_commas(static_cast<int64_t>(free_mb)) + " MB of " +
                    (device.module != nullptr ? "its GPU's" : "the host's") +
                    " memory; set data.loader.cache=none, or lower data.image.size");
}

}  // namespace dtrain
