#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/time.hpp"
#include "dtrain/checkpoint/state.hpp"
#include "dtrain/checkpoint/tensors.hpp"
#include "dtrain/runlog/run_folder.hpp"
#include "dtrain/runlog/run_lock.hpp"
#include "dtrain/runlog/run_log.hpp"
#include "train/run_context.hpp"

namespace dtrain {

/// The folder of a training run. All ranks know where it is; rank 0 locks it, opens it for a run that can start, and
/// checks that its path still leads to what is being written.
class TrainingFolder {
 public:
  /// Rank 0 locks an existing folder, unless nothing is to be written. Throws as RunFolder::require_ours() and
  /// RunLock.
  explicit TrainingFolder(const RunContext& run);

  const RunFolder& place() const { return folder_; }
  const std::string& path() const { return folder_.path(); }
  std::string file(const std::string& name) const { return folder_.file(name); }
  /// Everything is read and written through this: it lands in the folder that was locked, whatever its path leads to by
  /// now.
  FileSystem& files() const { return lock_ ? lock_->files() : real_file_system(); }

  /// What a run has in memory, to be saved beside a folder that is lost.
  struct Belongings {
    const TrainingState& state;
    std::vector<FileTensor> tensors;
    RunFacts facts;
  };
  /// What a start records about itself.
  struct Beginning {
    const TrainingState& state;        ///< in which it begins
    bool resumed = false;              ///< it resumes from a checkpoint
    int64_t logical_ranks_before = 0;  ///< V until here; 0: V is what it was
    std::vector<std::string> figures;  ///< the columns of metrics in epochs.csv
    std::string fingerprint;
    std::function<Belongings()> belongings;  ///< asked when the folder is lost
  };
  /// Rank 0, once everything that can be refused has been: an older run is moved aside only for one that can start.
  /// Cuts rows and checkpoints back to the state, opens the logs, writes config.yaml. Throws ConfigError if another job
  /// was faster, PermissionError, IoError.
  void open(const Beginning& beginning);

  // Rank 0, of an open folder.
  RunLog& log() const { return *log_; }
  RunLock& lock() const { return *lock_; }
  /// When the run's first start began, in UTC.
  const std::string& started() const { return started_; }
  bool stands() const { return lock_->stands() && log_->stands(); }
  /// A second has passed since require().
  bool look_is_due() const;
  /// Before a save and at the end: what is written lands in the folder that was opened, wherever it is by now, so this
  /// checks that its path still leads there. Throws like save_beside() if not.
  void require();
  /// require(), and for a run that has ended, that all its files exist: those that every run has, best.safetensors if
  /// `has_best`, and the checkpoint. Otherwise removes DONE and throws IoError.
  void require_finished(bool has_best, const std::string& newest_checkpoint);

  // All ranks, once rank 0 has opened it.
  /// The watchdog leaves its flight records here.
  void keep_flight_records() const;
  /// --log-all-ranks: this rank's log goes into log.rank-N.txt too, all of it. Throws like throw_errno.
  void keep_rank_log() const;

 private:
  const RunContext& run_;
  RunFolder folder_;
  std::unique_ptr<RunLock> lock_;
  std::unique_ptr<RunLog> log_;
  std::string started_;
  std::function<Belongings()> belongings_;
  Stopwatch since_look_;
};

}  // namespace dtrain
