#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/time.hpp"
#include "dtrain/base/timing.hpp"
#include "dtrain/io/files/file_system.hpp"

namespace dtrain {

/// Named values of metrics; nothing = undefined (empty in CSV, null in JSON).
using FigureList = std::vector<std::pair<std::string, std::optional<double>>>;

/// One update, as metrics.jsonl and TensorBoard show it.
struct StepRow {
  int64_t step = 0;   ///< updates since the run's first start, this one included
  int64_t epoch = 0;  ///< epochs finished
  double loss = 0;    ///< mean over the step's samples
  double learning_rate = 0;
  std::optional<double> loss_scale = std::nullopt;  ///< with fp16
  bool skipped = false;                             ///< the update was left out
  double seconds = 0;                               ///< of rank 0, without saves
  int64_t samples = 0;                              ///< over all ranks

  double images_per_s() const { return seconds > 0 ? static_cast<double>(samples) / seconds : 0; }
};

/// One row of epochs.csv. Seconds are of the monotonic clock; images/s counts all ranks.
struct EpochRow {
  int64_t epoch = 0;      ///< epochs finished, from 1
  int64_t steps = 0;      ///< updates in this epoch
  int64_t samples = 0;    ///< training samples in this epoch, over all ranks
  double train_loss = 0;  ///< mean over the epoch's samples, each at the weights of its own step
  std::optional<double> valid_loss;
  double learning_rate = 0;  ///< of the epoch's last update
  Timing timing;             ///< over all starts of the epoch: means over the ranks; epoch_seconds: of rank 0
  double elapsed_s = 0;      ///< since the run's first start, without the time between starts
  double valid_seconds = 0;
  double queue_fill = 0;      ///< mean over ranks: share of prefetched batches that were ready, 0…1
  double read_mb_per_s = 0;   ///< all ranks together, 1e6 bytes
  double memory_peak_mb = 0;  ///< largest of all ranks: resident memory
  std::optional<double>
      gpu_util_percent;  ///< mean over ranks, only during training, as GpuMeter samples it; empty on CPUs
  std::optional<double> gpu_memory_peak_mb;  ///< largest of all ranks so far: memory used on the GPU; empty on CPUs
  int64_t ranks = 1;
  int64_t logical_ranks = 1;
  int64_t skipped_steps = 0;     ///< of `steps`, those whose update was skipped
  int64_t replaced_samples = 0;  ///< of `samples`, those that were replaced by others
  FigureList figures;            ///< train_accuracy, valid_auroc … in the order of the header

  double images_per_s() const {
    return timing.epoch_seconds > 0 ? static_cast<double>(samples) / timing.epoch_seconds : 0;
  }
};

/// One row of ranks.csv: what one rank spent on an epoch.
struct RankRow {
  int64_t epoch = 0;  ///< epochs finished, from 1
  int64_t rank = 0;
  Timing timing = {};         ///< over all starts of the epoch that this rank took part in
  double memory_peak_mb = 0;  ///< largest resident memory so far, 1e6 bytes
  std::optional<double> gpu_memory_peak_mb = std::nullopt;
  double step_ms_median = 0;  ///< of this start's steps of the epoch; NaN: none
  double step_ms_p95 = 0;
};

/// Value of a column of epochs.csv as `monitor` names it: "valid.loss" = valid_loss. Nothing when the value is
/// undefined. Throws ConfigError naming the existing columns when the column does not exist.
std::optional<double> monitored(const EpochRow& row, const std::string& monitor);

/// The columns of epochs.csv: the fixed ones, then `figures`, then compute_s, imbalance_s, update_s,
/// skipped_steps, replaced_samples and gpu_memory_peak_mb.
std::vector<std::string> epoch_columns(const std::vector<std::string>& figures);

/// epochs.csv, ranks.csv and metrics.jsonl of a run, and what TensorBoard reads, on rank 0: appended, flushed, never
/// rewritten during the run. A line for which the disk has no room waits in memory and is written before the next one:
/// training continues meanwhile. TensorBoard's file is written once a second at most.
class RunLog {
 public:
  /// Opens or creates the files. Rows after `epochs_done` and events after `steps_done` are cut off, as is a torn last
  /// line, so that a resumed run has each epoch and step once. If epochs.csv lacks columns that this run writes, an
  /// older program began it: they are added, empty in its rows. Throws like throw_errno; ConfigError when it has other
  /// columns, DataError when a row does not fit its header. `files`, by which all are opened, outlives this object.
  /// `tensorboard`: keeps tensorboard/events.out.tfevents.*.dtrain too, one file for all starts, cut off in the same
  /// way; other files there are left alone.
  RunLog(const std::string& folder, const std::vector<std::string>& figures, int64_t epochs_done, int64_t steps_done,
         FileSystem& files = real_file_system(), bool tensorboard = false);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  void step(const StepRow& row);
  void epoch(const EpochRow& row, int64_t step);
  void ranks(const std::vector<RankRow>& rows);
  /// TensorBoard's file begins with this start: what belongs to its first step alone is not in it yet.
  bool begins_tensorboard() const { return begins_events_; }
  /// A PNG file for TensorBoard, at the step that the run is at.
  void picture(const std::string& tag, int64_t step, std::span<const std::byte> png);
  /// start, resume, checkpoint, end, with more named texts.
  void event(const std::string& name, int64_t step, int64_t epoch, const std::map<std::string, std::string>& texts);
  /// Writes the waiting lines; returns why it failed, one sentence, or "" when everything is in the files.
  std::string flush();
  /// Returns when what was written has reached the disk. May be called concurrently with the other functions, from any
  /// thread. Throws IoError.
  void sync() const;

  /// True while epochs.csv and metrics.jsonl are still where they were opened. From any thread.
  bool stands() const;
  /// From now on lines wait in memory: the files no longer belong to this job.
  void keep_back() { kept_back_ = true; }
  /// Writes these two, ranks.csv and TensorBoard's file, with the waiting lines, to their places in another folder:
  /// open files can be read even if they were removed. Throws like throw_errno.
  void copy_to(const std::string& folder) const;

 private:
  struct File {
    std::string path;
    int descriptor = -1;
    std::string waiting = "";  ///< not yet written, possibly the rest of a line
  };
  void open_events(const std::string& folder, int64_t epochs_done, int64_t steps_done);
  void add_events(int64_t step, const std::vector<std::pair<std::string, double>>& scalars);
  std::string write_waiting(File& file);
  void append(File& file, const std::string& line);
  FileSystem& files_;
  bool kept_back_ = false;
  void open_table(File& file, const std::vector<std::string>& columns, int64_t epochs_done);
  File csv_;
  File ranks_;
  File jsonl_;
  File events_;  ///< TensorBoard's; without a path: none
  bool begins_events_ = false;
  Stopwatch since_events_;
  std::vector<std::string> columns_;
};

}  // namespace dtrain
