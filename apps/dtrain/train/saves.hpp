#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/log.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/checkpoint/checkpoint_writer.hpp"
#include "dtrain/runlog/run_lock.hpp"
#include "dtrain/runlog/run_log.hpp"

namespace dtrain {

/// What a training run saves, on rank 0 only, without communication: begins saves in the background, reports how they
/// ended, and decides when failed ones end the run.
class Saves {
 public:
  struct Parts {  ///< all outlive this object
    const Log& log;
    RunLog& run_log;
    RunLock& lock;  ///< of the run folder; everything is written through it
  };
  struct Options {
    int64_t keep = 3;           ///< checkpoints
    int64_t max_failed = 3;     ///< one after another
    bool under_mpirun = false;  ///< KILL comes a second after TERM
    double first_s = 0;         ///< how long the first save is assumed to take, until one was measured
  };
  /// folder: of checkpoints; newest: path of the checkpoint in it that the run resumes from, "" = none
  Saves(const std::string& folder, const Parts& parts, const Options& options, std::string newest);

  /// Begins a checkpoint, unless the one of this step is saved or on its way. Waits first if TERM has come and the
  /// write could not end before KILL.
  void begin(const TrainingState& state, const std::vector<FileTensor>& tensors);
  /// Begins best.safetensors.
  void begin_best(const std::string& path, const TrainingState& state, const std::vector<FileTensor>& tensors,
                  const std::map<std::string, std::string>& metadata);
  /// Reports how saves have ended since. Throws IoError after max_failed in a row.
  void tell_ended();
  /// Waits until all is on the disk: checkpoint of `state`, best.safetensors, metrics. What failed is tried once more.
  /// Throws IoError.
  void finish(const TrainingState& state, const std::vector<FileTensor>& tensors);

  /// Path of the newest checkpoint that is saved; "" = none.
  const std::string& newest() const { return saved_; }

 private:
  bool can_end() const;
  void tell(const CheckpointWriter::Outcome& outcome, bool goes_on);
  std::string newest_text() const;

  std::string folder_;
  Parts parts_;
  Options options_;
  std::string saved_;
  std::string begun_;         // path of the newest checkpoint on its way
  std::string unsaved_;       // why the newest one is not saved; "" = it is
  std::string unsaved_best_;  // likewise best.safetensors
  int64_t failed_ = 0;        // one after another
  double longest_s_;
  CheckpointWriter writer_;  // last: its thread uses the run log
};

}  // namespace dtrain
