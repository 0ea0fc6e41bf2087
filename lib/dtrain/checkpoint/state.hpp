#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "dtrain/base/timing.hpp"
#include "dtrain/optim/loss_scale.hpp"
#include "dtrain/optim/loss_watch.hpp"
#include "dtrain/optim/schedule.hpp"

namespace dtrain {

/// Where a run is: everything besides tensors that its next step depends on. Small, plain, written as JSON into
/// every checkpoint (docs/checkpoint_format.md); doubles keep every bit.
struct TrainingState {
  int64_t epoch = 0;   ///< epochs finished
  int64_t step = 0;    ///< updates since the start of the run, skipped ones counted
  int64_t cursor = 0;  ///< samples done in the epoch that is running

  /// Of the epoch that is running, over all logical ranks: what its row in epochs.csv will need.
  double loss_sum = 0;           ///< sum of the samples' losses
  int64_t without_loss = 0;      ///< samples not included in it: the loss of their step was not finite (on_nan: skip)
  int64_t correct = 0;           ///< multiclass: samples classified correctly
  int64_t skipped_steps = 0;     ///< steps whose update was skipped
  int64_t replaced_samples = 0;  ///< samples that could not be decoded and were replaced
  uint64_t coverage_sum = 0;     ///< receipt: sum of the hashed sample ids seen, modulo 2^64
  Timing timing;                 ///< over all starts of the epoch; in a checkpoint that of rank 0
  double elapsed_s = 0;          ///< since the first start of the run, without the time between starts

  ScheduleState schedule;
  BestSoFar early_stop;  ///< in use with early_stop.patience
  int64_t optimizer_updates = 0;
  int64_t thawed_at = -1;  ///< updates when frozen groups began to train (optimizer.freeze_until); -1: not yet
  LossScale loss_scale;    ///< in use with fp16
  double best_value = std::numeric_limits<double>::quiet_NaN();  ///< of checkpoint.best.monitor; NaN: none yet
  int64_t best_epoch = 0;                                        ///< epochs finished when it was reached
  double best_loss = std::numeric_limits<double>::quiet_NaN();   ///< validation loss of that epoch; NaN: not known
  /// The same for predicting only the class frequencies (Loss::of_frequencies); NaN: not known.
  double best_frequencies_loss = std::numeric_limits<double>::quiet_NaN();
  LossWatch loss_watch;

  int64_t logical_ranks = 0;
  std::string split_sha256;
  std::string manifest_sha256;
  std::string trained_on;  ///< training_digits() of the data
  std::vector<std::string> classes;
  std::map<std::string, std::string> config;    ///< key → value as text, for the comparison on resume
  std::map<std::string, std::string> versions;  ///< library → version

  /// Mean over the samples seen in the epoch that is running; NaN when none has a finite loss.
  double mean_loss() const { return loss_sum / static_cast<double>(cursor - without_loss); }
};

std::string to_json(const TrainingState& state);
/// Throws DataError naming `file` and the field: one that is absent, of the wrong type or out of range
/// (state_fields.hpp), or counts that are inconsistent; ConfigError naming a field that this program does not have: a
/// newer one wrote it. So a resume, eval and verify refuse the same files.
TrainingState training_state_from_json(const std::string& json, const std::string& file);

}  // namespace dtrain
