#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "line/command_line.hpp"

namespace dtrain {

/// A short rehearsal of a training run in a process of its own, which may die of it.
struct TrialRun {
  std::vector<std::string> sources;    ///< --config FILE and key=value, as this command was given them
  std::vector<std::string> overrides;  ///< key=value that differ in the trial; they win
  int64_t steps = 1;                   ///< that it takes
  double limit_mb = 0;                 ///< host memory (1e6 bytes) beyond which it is ended
  double limit_s = 0;                  ///< time after which it is ended
  std::function<void()> alive;         ///< called again and again while it runs
};

/// How it ended.
struct TrialEnd {
  bool too_much = false;                ///< it was ended for the memory that it took, or found none
  bool too_slow = false;                ///< it was ended for its time
  double held_mb = 0;                   ///< the most host memory that it held, without pages of files
  std::optional<double> gpu_peak_mb{};  ///< the most that LibTorch held of its GPU; none without a GPU
  double seconds = 0;
};

/// Starts this program as `dtrain … --dry-run` without the launcher's variables, in a process that dies with this one,
/// and waits for its end. It writes nothing, and what it prints is kept in memory. Throws the child's own error where
/// it fails for another reason than memory, with its code and sentence; Error with kStopped when a signal asks this
/// process to stop; as ChildJob where it cannot be started.
TrialEnd run_trial(const TrialRun& trial);

/// The words of the command line that name the configuration.
std::vector<std::string> source_words(const ConfigSources& sources);

/// How a dry run tells its GPU's memory, for people and for run_trial(); "" without a GPU.
std::string gpu_peak_text(const std::optional<double>& megabytes);

}  // namespace dtrain
