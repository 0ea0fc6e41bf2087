#include "train/epoch_costs.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "dtrain/dist/collectives.hpp"

namespace dtrain {

namespace {

static_assert(std::is_trivially_copyable_v<RankCost>);

std::vector<RankCost> gather(Communicator& comm, const RankCost& mine) {
  const at::Tensor bytes = at::empty({static_cast<int64_t>(sizeof(RankCost))}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), &mine, sizeof(RankCost));
  std::vector<RankCost> ranks;
  for (const at::Tensor& theirs : all_gather(comm, bytes)) {
    RankCost& cost = ranks.emplace_back();
    std::memcpy(&cost, theirs.contiguous().const_data_ptr(), sizeof(RankCost));
  }
  return ranks;
}

double resident_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

/// The sum of a function of RankCost; NaN if it is NaN on any rank.
template <class Value>
double sum_of(const std::vector<RankCost>& ranks, const Value& value) {
  double sum = 0;
  for (const RankCost& rank : ranks) sum += value(rank);
  return sum;
}

template <class Value>
double mean_of(const std::vector<RankCost>& ranks, const Value& value) {
  return sum_of(ranks, value) / static_cast<double>(ranks.size());
}

template <class Value>
double largest_of(const std::vector<RankCost>& ranks, const Value& value) {
  double most = value(ranks.front());
  for (const RankCost& rank : ranks) {
    if (std::isnan(value(rank))) return value(rank);
    most = std::max(most, value(rank));
  }
  return most;
}

std::optional<double> known(double value) { return std::isnan(value) ? std::nullopt : std::optional(value); }

// The value below which that share of them lies; NaN of none.
double quantile_ms(const std::vector<double>& ascending_s, double share) {
  if (ascending_s.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto place = static_cast<size_t>(share * static_cast<double>(ascending_s.size()));
  return 1e3 * ascending_s[std::min(place, ascending_s.size() - 1)];
}

double compute_s(const RankCost& rank) { return rank.here.compute_s; }

}  // namespace

EpochCosts::EpochCosts(Communicator& comm, const Trainer::Finished& finished, const GpuUse& gpu,
                       std::vector<double> step_s)
    : mine_(finished.timing), mine_here_(finished.here) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::sort(step_s.begin(), step_s.end());
  ranks_ = gather(comm, {.epoch = finished.timing,
                         .here = finished.here,
                         .loaded = finished.loaded,
                         .memory_mb = resident_mb(),
                         .gpu_util_percent = gpu.util_percent.value_or(kUnknown),
                         .gpu_memory_mb = gpu.memory_peak_mb.value_or(kUnknown),
                         .step_ms_median = quantile_ms(step_s, 0.5),
                         .step_ms_p95 = quantile_ms(step_s, 0.95)});
}

Timing EpochCosts::mean(Timing RankCost::*timing) const {
  Timing sum;
  for (const RankCost& rank : ranks_) sum += rank.*timing;
  return sum / count();
}

void EpochCosts::fill(EpochRow& row) const {
  row.timing = mean(&RankCost::epoch);
  row.timing.epoch_seconds = mine_.epoch_seconds;
  row.queue_fill = mean_of(ranks_, [](const RankCost& rank) { return rank.loaded.queue_fill; });
  const double megabytes =
      sum_of(ranks_, [](const RankCost& rank) { return static_cast<double>(rank.epoch.bytes_read) / 1e6; });
  row.read_mb_per_s = row.timing.epoch_seconds > 0 ? megabytes / row.timing.epoch_seconds : 0;
  row.memory_peak_mb = largest_of(ranks_, [](const RankCost& rank) { return rank.memory_mb; });
  row.gpu_util_percent = known(mean_of(ranks_, [](const RankCost& rank) { return rank.gpu_util_percent; }));
  row.gpu_memory_peak_mb = known(largest_of(ranks_, [](const RankCost& rank) { return rank.gpu_memory_mb; }));
}

TimeShares EpochCosts::shares(int64_t loader_threads, int64_t spare_cores) const {
  TimeShares shares;
  shares.timing = mean(&RankCost::here);
  shares.timing.epoch_seconds = mine_here_.epoch_seconds;
  shares.read_s = mean_of(ranks_, [](const RankCost& rank) { return rank.loaded.read_s; });
  shares.decode_s = mean_of(ranks_, [](const RankCost& rank) { return rank.loaded.decode_s; });
  shares.queue_fill = mean_of(ranks_, [](const RankCost& rank) { return rank.loaded.queue_fill; });
  shares.loader_threads = loader_threads;
  shares.spare_cores = spare_cores;
  shares.processes = count();
  const auto slowest = std::max_element(ranks_.begin(), ranks_.end(), [](const RankCost& one, const RankCost& other) {
    return compute_s(one) < compute_s(other);
  });
  shares.slowest_rank = slowest - ranks_.begin();
  const double most = compute_s(*slowest);
  const double others = (sum_of(ranks_, compute_s) - most) / static_cast<double>(std::max<int64_t>(1, count() - 1));
  shares.slowest_compute_ratio = count() > 1 && others > 0 ? most / others : 1;
  return shares;
}

std::vector<RankRow> EpochCosts::rank_rows(int64_t epoch) const {
  std::vector<RankRow> rows;
  for (const RankCost& rank : ranks_)
    rows.push_back({.epoch = epoch,
                    .rank = static_cast<int64_t>(rows.size()),
                    .timing = rank.epoch,
                    .memory_peak_mb = rank.memory_mb,
                    .gpu_memory_peak_mb = known(rank.gpu_memory_mb),
                    .step_ms_median = rank.step_ms_median,
                    .step_ms_p95 = rank.step_ms_p95});
  return rows;
}

std::vector<std::map<std::string, double>> EpochCosts::rank_times(int64_t epoch) const {
  std::vector<std::map<std::string, double>> times;
  for (const RankCost& rank : ranks_)
    times.push_back({{"rank", static_cast<double>(times.size())},
                     {"epoch", static_cast<double>(epoch)},
                     {timing_name(&Timing::compute_s), compute_s(rank)},
                     {timing_name(&Timing::data_wait_s), rank.here.data_wait_s},
                     {timing_name(&Timing::update_s), rank.here.update_s},
                     {"compute_to_mean", compute_s(rank) / std::max(1e-9, mean_of(ranks_, compute_s))}});
  return times;
}

}  // namespace dtrain
