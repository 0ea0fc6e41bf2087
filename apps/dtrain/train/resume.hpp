#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/checkpoint/state.hpp"
#include "dtrain/io/files/safetensors.hpp"
#include "dtrain/runlog/run_folder.hpp"
#include "job/job.hpp"
#include "job/plan.hpp"
#include "line/command_line.hpp"

namespace dtrain {

/// How a run starts, decided by rank 0 and sent to all.
struct Resume {
  bool finished = false;  ///< DONE, and no more epochs are asked for: nothing to do if it is the same run
  bool resumed = false;
  std::string path;      ///< of the checkpoint
  TrainingState state;   ///< of the checkpoint
  SafetensorsFile file;  ///< rank 0 alone
  std::vector<std::string> skipped;
  int64_t logical_ranks = 1;  ///< V: the configuration's, else the checkpoint's or the number of processes

  /// This start goes on with another V than the checkpoint's (--resume-with distributed.logical_ranks).
  bool grows() const { return resumed && logical_ranks != state.logical_ranks; }
};

/// Looks into the run folder on rank 0, by `files`, for what --resume asks for. Throws MissingError, DataError,
/// ConfigError (a V other than the checkpoint's, when resuming without --resume-with distributed.logical_ranks),
/// UsageError (that, without a number).
Resume find_resume(const TrainCommand& command, const Config& config, const RunFolder& folder, FileSystem& files,
                   Job& job);

/// Compares key by key what the checkpoint was trained with and what this start asks for. Throws ConfigError listing
/// each key of the fingerprint that differs with both values, unless --resume-with names it or it has no effect here;
/// the same for V, data and split.
void require_same_run(const TrainCommand& command, const Config& config, const TrainingState& now,
                      const TrainingState& then, const std::string& path);

/// The same for the finished run in `folder`, to which a start without more epochs adds nothing: throws ConfigError
/// with all differences at once, V included, and how to start a separate run.
void require_same_finished_run(const TrainCommand& command, const Config& config, const TrainingState& now,
                               const TrainingState& then, const std::string& folder);

/// Steps of the running epoch that a checkpoint has done. Throws ConfigError if it is not between two steps of this
/// plan, or inside an epoch and of another V.
int64_t steps_into_epoch(const Experiment& experiment, const Plan& plan, const TrainingState& state,
                         const std::string& path);

/// Whether early_stop has ended a run in this state, which is at the end of an epoch.
bool stopped_early(const Experiment& experiment, const TrainingState& state);

/// Whether a run in this state has trained to its end: all its epochs, or as many as early_stop leaves.
bool run_is_over(const Experiment& experiment, const TrainingState& state);

/// "valid.loss has not improved in 3 epochs (early_stop)", of such a run.
std::string early_stop_text(const Experiment& experiment);

/// Whether a run in this state, between two steps of this plan, has a step left in its epoch.
bool step_is_left(const Experiment& experiment, const Plan& plan, const TrainingState& state);

/// The message about it if nothing differs.
std::string finished_text(const Experiment& experiment, const TrainingState& state, const std::string& folder);

}  // namespace dtrain
