#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/checkpoint/options.hpp"
#include "dtrain/checkpoint/state.hpp"
#include "dtrain/checkpoint/tensors.hpp"

namespace dtrain {

/// The checkpoints/ folder of a run, on rank 0. Only files that verify are trusted: no `latest` pointer, no times; the
/// newest valid file is found by scanning.
class CheckpointFolder {
 public:
  /// `files` must outlive this object.
  explicit CheckpointFolder(std::string path, FileSystem& files = real_file_system());
  const std::string& path() const { return path_; }
  FileSystem& files() const { return files_; }

  /// "epoch-0003-step-00000420.safetensors": 3 epochs finished, 420 updates since the start.
  static std::string file_name(const TrainingState& state);

  /// Before a run at `step` with `epoch` epochs finished writes: leftover temporary files are removed, and files of a
  /// later step, which this run will write again or which are damaged, are set aside as NAME.aside, the newest first.
  /// Returns their new names.
  std::vector<std::string> begin_after(int64_t step, int64_t epoch) const;

  /// Writes model.* and optimizer.* tensors with the state, verifies the file by reading it again, then removes all but
  /// the newest `keep` files. Returns the path. Throws like throw_errno, and IoError when the file does not read back;
  /// older files are intact then.
  std::string save(const TrainingState& state, const HostCopy& tensors, int64_t keep) const;

  /// A checkpoint that verified.
  struct Found {
    std::string path;
    TrainingState state;
    SafetensorsFile file;
    std::vector<std::string> skipped;  ///< newer files that cannot be read or did not verify, each with the reason
  };
  /// The newest valid checkpoint; nothing when there are no checkpoint files. Changes nothing in the folder.
  /// Throws DataError when there are files but none is valid, and like throw_errno when the folder cannot be read.
  std::optional<Found> newest() const;

  /// All checkpoint files in the folder, valid or not, newest first; none if there is no such folder.
  std::vector<std::string> paths() const;

  /// Reads one file wherever it is. Throws MissingError, DataError: damaged, not a checkpoint, an impossible state, or
  /// another step than in the file's name.
  static Found read(const std::string& path, FileSystem& files = real_file_system());

 private:
  std::vector<std::string> names() const;  // of checkpoint files, newest first
  std::vector<std::string> all_names() const;
  std::string path_;
  FileSystem& files_;
};

}  // namespace dtrain
