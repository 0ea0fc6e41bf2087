#include "train/ram_cache.hpp"

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/dist/collectives.hpp"
#include "job/cache_plan.hpp"
#include "job/planned_parts.hpp"

namespace dtrain {

// Share of a host's free memory: networks, gradients and the loader's buffers come on top.
constexpr double kForPictures = 0.8;
// Bytes beyond the expected size, which is estimated from a few pictures.
constexpr double kSpare = 64 << 20;

static std::string megabytes(double mb) {
  return (mb < 100 ? fixed(mb, 1) : with_commas(static_cast<int64_t>(mb + 0.5))) + " MB";
}

// The first rank of a host. The size is the most it may use: pictures may be larger than those that were looked at.
static std::unique_ptr<SharedPictures> memory_of_host(const Experiment& e, const Plan& plan, double need_mb) {
  const double free_mb = kForPictures * free_host_mb();
  if (need_mb > free_mb)
    throw IoError("needs about " + megabytes(need_mb) + " on each host, and " + host_name() + " can give " +
                  megabytes(free_mb));
  return std::make_unique<SharedPictures>(static_cast<int64_t>(plan.dataset.samples.size()),
                                          static_cast<int64_t>(std::min(free_mb * 1e6, 1.5e6 * need_mb + kSpare)),
                                          e.data.image, keeps_raw(e));
}

RamCache make_ram_cache(const Experiment& e, const Plan& plan, Job& job) {
  const std::vector<std::string> hosts = all_gather_text(job.comm(), host_name());
  const auto first = static_cast<size_t>(std::find(hosts.begin(), hosts.end(), host_name()) - hosts.begin());
  const bool is_first = first == static_cast<size_t>(job.rank());
  const double need_mb = ram_cache_mb(e, plan);
  RamCache cache;
  std::string refusal;
  const auto attempt = [&](const auto& make) {
    try {
      cache.pictures = make();
    } catch (const Error& error) {
      refusal = error.what();
    }
  };
  if (is_first) attempt([&] { return memory_of_host(e, plan, need_mb); });
  const std::vector<std::string> addresses =
      all_gather_text(job.comm(), cache.pictures ? cache.pictures->address() : "");
  if (!is_first && !addresses[first].empty())
    attempt([&] {
      return std::make_unique<SharedPictures>(addresses[first], static_cast<int64_t>(plan.dataset.samples.size()),
                                              e.data.image, keeps_raw(e));
    });
  for (const std::string& theirs : all_gather_text(job.comm(), refusal))
    if (cache.note.empty()) cache.note = theirs;
  if (!cache.note.empty()) {
    cache.pictures.reset();
    cache.note = "no cache: data.loader.cache ram " + cache.note + "; pictures are decoded in every epoch";
    return cache;
  }
  const auto samples = static_cast<int64_t>(plan.split.train.size() + plan.split.valid.size());
  cache.line = "cache  about " + megabytes(need_mb) + " of each host's memory for " +
               count_of(samples, "decoded picture") + ", shared by its ranks";
  return cache;
}

}  // namespace dtrain
