#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/base/trace.hpp"
#include "dtrain/checkpoint/state.hpp"
#include "dtrain/data/device_batches.hpp"
#include "dtrain/device/gpu_meter.hpp"
#include "dtrain/runlog/progress.hpp"
#include "dtrain/runlog/run_folder.hpp"
#include "dtrain/runlog/run_lock.hpp"
#include "dtrain/runlog/run_log.hpp"
#include "dtrain/train/time_shares.hpp"
#include "dtrain/train/trainer.hpp"
#include "ram_cache.hpp"
#include "resume.hpp"
#include "run.hpp"
#include "saves.hpp"

namespace dtrain {

/// What each rank tells of an epoch: seconds of training, over all starts of the epoch and (kHere…) of this one.
enum Cost {
  kDataWait,
  kAllReduce,
  kCompute,
  kUpdate,
  kQueueFill,
  kMegabytes,  ///< read
  kMemory,     ///< megabytes
  kGpuUtil,    ///< percent; NaN: not known
  kGpuMemory,  ///< megabytes; NaN: not known
  kHereDataWait,
  kHereAllReduce,
  kHereCompute,
  kHereUpdate,
  kHereRead,
  kHereDecode,
  kHereMegabytes,
  kCosts
};

/// A training run from its parts to its last line. How it begins is in training_start.cpp; what it does in
/// train_command.cpp, the epoch loop in train(); what it tells people and files in training_report.cpp, what it does
/// about its folder in training_folder.cpp.
class TrainingRun {
 public:
  /// Builds everything and goes back to the newest checkpoint; refuses what can be refused.
  TrainingRun(const TrainCommand& command, const Config& config, Job& job);
  int run();

 private:
  void read_data();
  void build();
  void make_cache();
  bool rehearses_afresh();
  void restore();
  void restore_best();
  int dry_run();
  std::string way_on();
  int train();
  bool time_is_up() const;
  StopRequest request();
  std::optional<EpochRow> close_epoch();
  TimeShares time_shares(const Trainer::Finished& finished) const;
  void note_costs(const Trainer::Finished& finished, const GpuUse& gpu, EpochRow& row);
  bool is_better(double value, const std::optional<double>& valid_loss) const;
  bool note_best(const EpochRow& row);
  bool epoch_save_due() const;
  void save();
  std::vector<FileTensor> checkpoint_tensors() const;
  std::string finish_saves();
  int end();
  int save_and_leave(int code);
  int end_early(int code);

  // training_folder.cpp
  FileSystem& files() const { return lock_ ? lock_->files() : real_file_system(); }
  bool folder_stands() const { return lock_->stands() && run_log_->stands(); }
  void open_folder();
  void require_folder();
  void require_finished_folder();
  void keep_flight_records();
  void note_saves();
  void set_best_aside();

  // training_report.cpp
  void banner();
  void banner_about_cores();
  void show_progress(const StepReport& step);
  void tell_of_skip(const StepReport& step);
  void tell_of_replaced(const EpochRow& row);
  void tell_of_nothing(const EpochRow& row);
  void tell_of_cache(const EpochRow& row);
  void print_epoch(const EpochRow& row, bool best);
  void tell_where_time_went();
  void write_best(const EpochRow& row, double value);
  RunFacts run_facts(const std::string& result) const;
  void write_run_json_file(const std::string& result);
  void update_run_json();
  std::string print_result();
  void begin_trace();
  std::vector<std::string> gather_trace();
  void write_trace(const std::vector<std::string>& ranks);

  const TrainCommand& command_;
  const Config& config_;
  const Experiment& e_;
  Job& job_;
  RunFolder folder_;
  std::unique_ptr<RunLock> lock_;  // rank 0; null with --dry-run
  Trace trace_;                    // --trace
  Resume resume_;
  std::string refusal_;  // dry run: what a start without --dry-run is refused for; "" = nothing
  Plan plan_;
  LabelCounts trained_labels_;
  double frequencies_loss_ = 0;  // of the last evaluation: what the classes' frequencies alone would have had
  int64_t steps_per_epoch_ = 0;
  TrainingState state_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Loss> loss_;
  std::unique_ptr<Schedule> schedule_;
  std::unique_ptr<PictureCache> cache_;  // on the device; null: none
  RamCache ram_cache_;
  std::string cache_line_;  // for the banner
  bool told_of_cache_ = false;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<DeviceBatches> batches_;  // from loader_, on the device
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<GpuMeter> gpu_meter_;
  std::unique_ptr<RunLog> run_log_;         // rank 0
  std::unique_ptr<ProgressLine> progress_;  // rank 0
  std::string weights_line_;
  std::string fingerprint_;
  std::string started_;
  std::vector<std::map<std::string, std::string>> table_;
  Stopwatch this_start_;
  double elapsed_before_ = 0;  // of the run's earlier starts
  int64_t steps_this_start_ = 0;
  std::optional<Stopwatch> since_told_of_skip_;
  Stopwatch since_folder_look_;
  std::string where_time_went_;   // in the last epoch, one sentence; "" where there is nothing to say
  std::string told_of_time_;      // the last such sentence, without its figures
  at::Tensor costs_;              // [ranks, kCosts] of the last epoch
  std::unique_ptr<Saves> saves_;  // rank 0
  double first_save_s_ = 0;       // expected
  double longest_step_s_ = 0;
  Stopwatch since_save_;
};

}  // namespace dtrain
