#include "job/batch_estimate.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/memory.hpp"

namespace dtrain {

int64_t most_useful_batch(const Experiment& e, const Plan& plan) {
  const auto samples = static_cast<int64_t>(plan.split.train.size());
  return std::max<int64_t>(1, samples / (plan.logical_ranks * e.batch.accumulate));
}

JobMemory memory_with(const Experiment& e, Plan& plan, const Network& network, int64_t processes, int64_t batch,
                      int64_t logical_ranks) {
  const int64_t own_ranks = std::exchange(plan.logical_ranks, logical_ranks);
  const int64_t own_batch = std::exchange(plan.local_batch, batch);
  JobMemory memory = job_memory(e, plan, network, {}, processes);
  plan.logical_ranks = own_ranks;
  plan.local_batch = own_batch;
  return memory;
}

BatchLine::BatchLine(const JobMemory& memory) : picture_mb(memory.picture_mb) {
  const double apart = memory.peers_mb + (memory.shares_cache ? memory.cache_mb : 0);
  fixed_mb = memory.process_mb() - apart - picture_mb * static_cast<double>(memory.pictures);
}

int64_t BatchLine::fitting(double room_mb) const {
  if (picture_mb <= 0 || room_mb <= fixed_mb) return 0;
  constexpr double kMost = 1e6;  // the key's
  return static_cast<int64_t>(std::min(kMost, std::floor((room_mb - fixed_mb) / picture_mb)));
}

double common_mb(const JobMemory& memory) {
  return memory.on_gpu ? 0 : memory.saving_mb + (memory.shares_cache ? memory.cache_mb : 0);
}

int64_t estimated_batch(const Experiment& e, const Plan& plan, const JobMemory& memory) {
  double room_mb = 0;
  if (memory.on_gpu) {
    room_mb = kUsedByAuto * *std::min_element(memory.gpus_mb.begin(), memory.gpus_mb.end());
  } else {
    const double own_mb = static_cast<double>(resident_memory("self").held) / 1e6;
    const double all_mb = static_cast<double>(memory.host.free_bytes) / 1e6 + own_mb;
    room_mb = (kUsedByAuto * all_mb - common_mb(memory)) / static_cast<double>(memory.processes);
  }
  return std::clamp<int64_t>(BatchLine(memory).fitting(room_mb), 1, most_useful_batch(e, plan));
}

std::string fitting_batch_advice(const Experiment& e, const Plan& plan, const JobMemory& memory) {
  // One that was thought to fit and did not: then less than that.
  const int64_t fits = std::min(estimated_batch(e, plan, memory), plan.local_batch * 9 / 10);
  if (fits < 1) return "";
  const bool global = e.batch.global > 0;
  const int64_t value = global ? fits * plan.logical_ranks * e.batch.accumulate : fits;
  return std::string("; ") + (global ? "batch.global=" : "batch.per_rank=") + std::to_string(value) +
         " would fit by the estimate of memory" +
         (global ? "" : ", and batch.per_rank=auto finds the largest that does");
}

void require_batch_number(const Experiment& e, const std::string& what) {
  if (!e.batch.is_auto()) return;
  throw ConfigError("batch.per_rank is auto, which a training run finds when it begins, and " + what +
                    " needs a number, such as batch.per_rank=32; dtrain check prints an estimate, dtrain --dry-run "
                    "what fits");
}

}  // namespace dtrain
