#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/checkpoint/checkpoint_folder.hpp"

namespace dtrain {

/// Saves in the background, on rank 0: training waits while its tensors are copied and hashed in host memory; a thread
/// writes, syncs, publishes and reads back (after CheckFreq, Mohan et al., FAST 2021). Between steps the caller asks
/// what was saved and what was not.
class CheckpointWriter {
 public:
  /// keep     newest checkpoints that stay in the folder, >= 1
  /// first    called on the writer's thread before each save; if it throws, the save has failed
  CheckpointWriter(
      CheckpointFolder folder, int64_t keep, std::function<void()> first = [] {});
  ~CheckpointWriter();  ///< waits for the saves that have begun
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Takes a copy and returns. With kMostWaiting saves begun it first waits for the oldest, so that a slow disk slows
  /// training down instead of filling the memory.
  void save(const TrainingState& state, const std::vector<FileTensor>& tensors);
  /// Likewise a file of tensors alone, by the file system of the checkpoints.
  void save_tensors(const std::string& path, const TrainingState& state, const std::vector<FileTensor>& tensors,
                    const std::map<std::string, std::string>& metadata);
  static constexpr size_t kMostWaiting = 2;
  /// Repeats the newest failed save_tensors() from its copy; does nothing if none has failed.
  void try_best_again();

  /// How a save ended. A file is saved when it has its name, has reached the disk and was read back.
  struct Outcome {
    std::string path;
    int64_t step = 0;
    int64_t epoch = 0;        ///< epochs finished
    bool checkpoint = false;  ///< by save(), not by save_tensors()
    double seconds = 0;       ///< from the copy to the end
    int failed = 0;           ///< exit code of the failure; 0: saved
    std::string why;          ///< of a failure, one sentence; older files are intact
  };
  /// Those that have ended since the last call, in order. Never waits.
  std::vector<Outcome> outcomes();
  /// Waits for all that have begun, then like outcomes().
  std::vector<Outcome> finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
