#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/device/gpu_meter.hpp"
#include "dtrain/metrics/measure.hpp"
#include "dtrain/metrics/predictions.hpp"
#include "train/keeper.hpp"
#include "train/resume.hpp"
#include "train/run_context.hpp"
#include "train/timeline.hpp"
#include "train/training_folder.hpp"
#include "train/training_parts.hpp"
#include "train/training_report.hpp"

namespace dtrain {

/// A training run from its parts to its last line. How it begins is in training_start.cpp; the loop over epochs is
/// train() in training_run.cpp.
class TrainingRun {
 public:
  /// All ranks together. Builds everything and goes back to the checkpoint that --resume asks for; refuses what can be
  /// refused. `command` and `job` outlive this object.
  TrainingRun(const TrainCommand& command, const Config& config, Job& job);
  /// All ranks together. Returns the exit code.
  int run();

 private:
  // training_start.cpp
  void build();
  void open();
  void show_preview();
  bool rehearses_afresh();
  void require_work() const;
  void fill_replica(const EmaOptions& ema);
  void restore();

  StepReport rehearse();
  int dry_run();
  int train();
  std::optional<int> train_epoch();
  std::optional<ClosedEpoch> close_epoch(GpuMeter& gpu_meter);
  std::optional<Predictions> predict_validation(const std::vector<int64_t>& samples);
  bool validate(const TrainingCounts& counts, ClosedEpoch& epoch);
  void finish_epoch(const ClosedEpoch& epoch);
  bool time_is_up() const;
  bool stop_is_due() const;
  StopRequest request() const;
  int end();
  int save_and_leave(int code);
  int end_early(int code);
  std::string what_goes_on(int code) const;
  std::string finish_saves();

  Config config_;
  const RunContext run_;
  RunClock clock_;
  TrainingFolder folder_;
  Timeline timeline_;
  Resume resume_;
  std::string refusal_;  // dry run: what a start without --dry-run is refused for; "" = nothing
  Plan plan_;
  TrainingState state_;
  // Null for a run that was found finished.
  std::unique_ptr<TrainingParts> parts_;
  std::unique_ptr<TrainingReport> report_;
  std::unique_ptr<Keeper> keeper_;
};

}  // namespace dtrain
