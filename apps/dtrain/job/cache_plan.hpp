#pragma once
#include <cstdint>
#include <string>

#include "dtrain/data/pixels/raw_pictures.hpp"
#include "dtrain/device/device.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// What data.loader.cache: device will hold of one process in the end.
struct CachePlan {
  int64_t samples = 0;   ///< the most that it will see
  PixelKind kind;        ///< of its pictures, as far as known
  double megabytes = 0;  ///< 1e6 bytes
};

/// Of rank `rank` of `ranks`, for `epochs` epochs to come: its share of the validation part, and as much of the
/// training part as its logical ranks can meet in so many shuffles.
CachePlan plan_cache(const Experiment& experiment, const Plan& plan, const PixelKind& kind, int ranks, int rank,
                     int64_t epochs);

/// The kind of the first training picture; of the smallest kind where it cannot be read, which is told in its place.
PixelKind first_kind(const Experiment& experiment, const Plan& plan);

/// "up to 1,234 MB for 5,000 pictures of 224 x 224 x 3 bytes"
std::string cache_text(const Experiment& experiment, const CachePlan& cache);

/// 1e6 bytes that data.loader.cache: ram is expected to take on each host: what a few pictures of the training part
/// take, for all of it and the validation part. Bad pictures are left out; none that can be read: 0.
double ram_cache_mb(const Experiment& experiment, const Plan& plan);

/// Host memory that can still be had, in 1e6 bytes: memory_budget().
double free_host_mb();

/// Memory that a cache may have, in 1e6 bytes: of a GPU's free memory seven tenths, of the host's available memory all,
/// divided by the `sharers`, the processes that take from it.
double memory_for_cache(const Device& device, int64_t sharers);

/// Throws ConfigError with both figures where the cache needs more memory than there is.
void require_cache_fits(const Experiment& experiment, const CachePlan& cache, const Device& device, double free_mb);

}  // namespace dtrain
