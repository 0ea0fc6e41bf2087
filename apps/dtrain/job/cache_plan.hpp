#pragma once
#include <cstdint>
#include <string>

#include "dtrain/data/pixels/raw_pictures.hpp"
#include "dtrain/device/device.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// What data.loader.cache: device will hold in one process in the end.
struct CachePlan {
  int64_t samples = 0;   ///< the most that it will see
  PixelKind kind;        ///< of its pictures, as far as known
  double megabytes = 0;  ///< 1e6 bytes
};

/// Of rank `rank` of `ranks`, for `epochs` epochs to come: its share of the validation part, and as much of the
/// training part as its logical ranks can see in that many shuffles.
CachePlan plan_cache(const Experiment& experiment, const Plan& plan, const PixelKind& kind, int ranks, int rank,
                     int64_t epochs);

/// The kind of the first training picture; the smallest kind if it cannot be read, which is reported elsewhere.
PixelKind first_kind(const Experiment& experiment, const Plan& plan);

/// "up to 1,234 MB for 5,000 pictures of 224 x 224 x 3 bytes"
std::string cache_text(const Experiment& experiment, const CachePlan& cache);

/// 1e6 bytes that data.loader.cache: ram is expected to take on each host: what a few pictures of the training part
/// take, for all of it and the validation part. Bad pictures are left out; if none can be read, 0.
double ram_cache_mb(const Experiment& experiment, const Plan& plan);

/// Host memory still available, in 1e6 bytes: memory_budget().
double free_host_mb();

/// Memory that a cache may use, in 1e6 bytes: seven tenths of a GPU's free memory, or all of the host's available
/// memory, divided by `sharers`, the processes that share it.
double memory_for_cache(const Device& device, int64_t sharers);

/// Throws ConfigError with both figures if the cache needs more memory than there is.
void require_cache_fits(const Experiment& experiment, const CachePlan& cache, const Device& device, double free_mb);

}  // namespace dtrain
