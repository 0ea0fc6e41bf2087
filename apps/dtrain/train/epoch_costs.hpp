#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dtrain/data/batches/batch_source.hpp"
#include "dtrain/device/gpu_meter.hpp"
#include "dtrain/dist/communicator.hpp"
#include "dtrain/runlog/run_log.hpp"
#include "dtrain/train/time_shares.hpp"
#include "dtrain/train/trainer.hpp"

namespace dtrain {

/// What one rank reports about an epoch. It is sent as it is in memory: all ranks are one build.
struct RankCost {
  Timing epoch;                 ///< over all starts of the epoch
  Timing here;                  ///< of this start
  BatchSource::Figures loaded;  ///< of this start
  double memory_mb = 0;         ///< largest resident memory so far, 1e6 bytes
  double gpu_util_percent = 0;  ///< NaN: not known
  double gpu_memory_mb = 0;     ///< the most so far, 1e6 bytes; NaN: not known
  double step_ms_median = 0;    ///< of this start; NaN: it has taken no step of the epoch
  double step_ms_p95 = 0;       ///< likewise
};

/// What the ranks spent on an epoch: the same on all of them.
class EpochCosts {
 public:
  /// For no epoch.
  EpochCosts() = default;
  /// All ranks together, each with its own; `step_s`: seconds of the epoch's steps in this start. Throws CommError.
  EpochCosts(Communicator& comm, const Trainer::Finished& finished, const GpuUse& gpu, std::vector<double> step_s);

  /// The row's columns of time, memory and reading: means over the ranks, except memory, where it is the largest.
  void fill(EpochRow& row) const;
  /// Of this start: its own clocks, not those of earlier starts of the epoch.
  TimeShares shares(int64_t loader_threads, int64_t spare_cores) const;
  /// For ranks.csv; empty for no epoch.
  std::vector<RankRow> rank_rows(int64_t epoch) const;
  /// For run.json: where the time of each rank went in `epoch`; empty for no epoch.
  std::vector<std::map<std::string, double>> rank_times(int64_t epoch) const;

 private:
  int64_t count() const { return static_cast<int64_t>(ranks_.size()); }
  Timing mean(Timing RankCost::*timing) const;

  std::vector<RankCost> ranks_;
  Timing mine_;       // over all starts
  Timing mine_here_;  // of this start
};

}  // namespace dtrain
