#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dtrain/base/stop_signal.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/base/trace.hpp"
#include "dtrain/runlog/run_log.hpp"
#include "train/run_context.hpp"
#include "train/saves.hpp"
#include "train/training_folder.hpp"
#include "train/training_parts.hpp"

namespace dtrain {

/// An epoch that training and validation have finished.
struct ClosedEpoch {
  EpochRow row;
  double frequencies_loss = 0;  ///< valid loss of predicting only the class frequencies; 0: none
};

/// What a run saves: checkpoints when they are due, and the weights of the best epoch. All ranks have one and call it
/// together; rank 0 writes.
class Keeper {
 public:
  struct Parts {  ///< all outlive this object
    const RunContext& run;
    const Plan& plan;
    TrainingParts& built;
    TrainingFolder& folder;
    TrainingState& state;  ///< the run's; best_… and elapsed_s are set here
    const RunClock& clock;
    Trace& trace;
  };
  explicit Keeper(const Parts& parts);

  /// Once the folder is open. `standing_at`: path of the checkpoint that the run resumes from, "": none.
  /// best.safetensors is written separately from the checkpoints: after a failure, or a resume from an older or another
  /// run's checkpoint, it may be missing, or from an epoch that this run has not seen. The right weights cannot be
  /// recovered: the file is set aside, and the best of the epochs still to come counts.
  void open(const std::string& standing_at);

  /// What rank 0's clock asks for: save, if checkpoint.every is a time.
  StopRequest request() const;
  bool due_after_step() const;
  bool due_after_epoch() const;
  /// Seconds that a save is expected to take until one was measured.
  double expected_save_s() const { return first_save_s_; }

  /// Begins a checkpoint, unless the one of this step is saved or on its way. Throws Error with kReplicasDiffer,
  /// IoError if the folder is lost.
  void save();
  /// Keeps the weights if the epoch is better than all before; returns whether it is.
  bool note_best(const ClosedEpoch& epoch);

  // Rank 0; the others have no saves.
  /// As Saves::tell_ended().
  void tell_saves();
  /// As Saves::finish().
  void finish() { saves_->finish(p_.state, p_.built.replica->checkpoint_tensors()); }
  /// Path of the newest checkpoint that is saved; "": none.
  const std::string& newest() const { return saves_->newest(); }
  /// What a run that has diverged can resume from, as the end of a sentence; "" on other ranks.
  std::string way_on();

 private:
  const Experiment& experiment() const { return p_.run.experiment; }
  bool is_better(double value, const std::optional<double>& valid_loss) const;
  std::string best_path() const { return p_.folder.file("best.safetensors"); }
  bool best_file_is_ours() const;
  void set_best_aside() const;
  void write_best(const EpochRow& row, double value);

  Parts p_;
  double first_save_s_;
  std::unique_ptr<Saves> saves_;  // rank 0, of an open folder
  Stopwatch since_save_;
};

}  // namespace dtrain
