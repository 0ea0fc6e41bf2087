#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/time.hpp"
#include "dtrain/runlog/progress.hpp"
#include "dtrain/runlog/run_folder.hpp"
#include "train/epoch_costs.hpp"
#include "train/resume.hpp"
#include "train/run_context.hpp"
#include "train/training_folder.hpp"
#include "train/training_parts.hpp"

namespace dtrain {

/// What a training run reports while it runs: on the console, in metrics.jsonl and epochs.csv, in run.json. All ranks
/// have one and call it; rank 0 prints.
class TrainingReport {
 public:
  struct Parts {  ///< all outlive this object
    const RunContext& run;
    const Plan& plan;
    const TrainingParts& built;
    TrainingFolder& folder;
    const TrainingState& state;
    const RunClock& clock;
  };
  explicit TrainingReport(const Parts& parts) : p_(parts) {}

  /// All ranks together, before the first step: what runs where, on which data, with which network.
  void banner(const Resume& resume);
  /// After each step: its row, with the time that it took and its samples over all ranks, and once in a second whether
  /// the folder is still there.
  void step(const StepReport& step, double seconds, int64_t samples);
  /// After an epoch, whose costs were noted: its line on the console.
  void epoch(const EpochRow& row, bool best);
  /// All ranks together: which samples of the epoch were replaced. Those of this start are named; the count is of the
  /// whole epoch.
  void replaced(const EpochRow& row) const;
  /// In the step in which frozen groups begin to train.
  void thawed() const;
  /// Of segmentation, in every epoch that it holds for: iou and dice are 0 then, and so are their intervals.
  void nothing_found(const EpochRow& row) const;
  /// What the last epoch cost, for its line and run.json.
  void note_costs(EpochCosts costs) { costs_ = std::move(costs); }

  /// Of ranks.csv, for the epoch whose costs were noted.
  std::vector<RankRow> rank_rows(int64_t epoch) const { return costs_.rank_rows(epoch); }

  // Rank 0.
  /// What run.json holds; `result`: result_sha256, "" while it is not known.
  RunFacts facts(const std::string& result) const;
  void write_run_json(const std::string& result) const;
  /// run.json and the rows that wait. While training goes on a disk without room is not a reason to end.
  void update_files() const;
  /// The end's lines: the best epoch and result_sha256, which is returned; into run.json too.
  std::string result() const;

 private:
  void tell_of_skip(const StepReport& step);
  void show_progress(const StepReport& step);
  void tell_of_cache(const EpochRow& row);
  void tell_where_time_went();
  void tell_own_times(const RankRow& own) const;
  const Log& log() const { return p_.run.job.log(); }

  Parts p_;
  std::vector<std::map<std::string, std::string>> table_;  // Job::table()
  std::unique_ptr<ProgressLine> progress_;                 // rank 0, from the first step on
  std::optional<Stopwatch> since_told_of_skip_;
  bool told_of_cache_ = false;
  EpochCosts costs_;          // of the last epoch
  std::string told_of_time_;  // the last sentence on where time went, without its figures
};

}  // namespace dtrain
