#include "dtrain/advice/memory_advice.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "dtrain/base/text.hpp"

namespace dtrain {

static std::string megabytes(double mb) { return with_commas(std::llround(mb)) + " MB"; }

// What to do if each process may use `room_mb`: a batch whose estimated need is at most nine tenths of that, since it
// is only an estimate.
static std::string smaller_batch(const MemoryFacts& facts, double room_mb, const std::string& other) {
  const double apart_from_pictures = facts.process_mb - facts.picture_mb * static_cast<double>(facts.pictures);
  const double fit = facts.picture_mb > 0 ? std::floor((0.9 * room_mb - apart_from_pictures) / facts.picture_mb) : 0;
  if (fit < 1) return "not even one picture per pass would fit: " + other;
  const auto most = std::min(static_cast<int64_t>(fit), facts.pictures);
  return fmt::format("{}={} fits (batch.accumulate keeps a step as large), or {}", facts.batch_key,
                     most * facts.batch_factor, other);
}

std::vector<Finding> memory_advice(const MemoryFacts& facts) {
  const auto processes = static_cast<double>(facts.processes);
  const double apart = facts.saving_mb + facts.shared_mb;
  const double need = processes * facts.process_mb + apart;
  if (need <= facts.free_mb) return {};
  std::string text = count_of(facts.processes, "process", "processes") + (facts.processes == 1 ? " needs" : " need") +
                     " about " + megabytes(need) + " of memory";
  if (facts.processes > 1)
    text += " on one host (" + megabytes(facts.process_mb) + " each" +
            (apart > 0 ? ", " + megabytes(apart) + " besides" : "") + ")";
  if (need <= facts.limit_mb)
    return {{weight::kPoor, "memory",
             text + ", and " + facts.bound + " can give " + megabytes(facts.free_mb) + " of its " +
                 megabytes(facts.limit_mb) + " now: start the job where that much is free, or " +
                 smaller_batch(facts, (facts.free_mb - apart) / processes, "use fewer processes per host")}};
  const std::string other = facts.processes > 1 ? "use fewer processes per host or a smaller data.image.size"
                                                : "use a smaller data.image.size";
  return {{weight::kStops, "memory",
           text + ", and " + facts.bound + " has " + megabytes(facts.limit_mb) +
               " in all: " + smaller_batch(facts, (facts.limit_mb - apart) / processes, other)}};
}

std::vector<Finding> gpu_memory_advice(const MemoryFacts& facts, const std::vector<double>& gpus_mb) {
  if (gpus_mb.empty()) return {};
  const double least = *std::min_element(gpus_mb.begin(), gpus_mb.end());
  if (facts.process_mb <= least) return {};
  return {{weight::kStops, "gpu_memory",
           "a process needs about " + megabytes(facts.process_mb) +
               " of its GPU's memory, and the smallest GPU here has " + megabytes(least) + ": " +
               smaller_batch(facts, least, "use precision=bf16 or a smaller data.image.size")}};
}

std::vector<Finding> cache_advice(double need_mb, double free_mb) {
  constexpr double kMost = 0.8;
  if (need_mb <= kMost * free_mb) return {};
  return {{weight::kSmall + 5, "cache",
           "data.loader.cache=ram needs about " + megabytes(need_mb) + ", and a job takes four fifths of the " +
               megabytes(free_mb) +
               " that are free at most, so it would train without: use a smaller data.image.size or more memory, or "
               "leave the cache out"}};
}

}  // namespace dtrain
