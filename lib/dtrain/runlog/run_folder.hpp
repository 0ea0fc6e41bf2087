#pragma once
#include <map>
#include <string>
#include <vector>

#include "dtrain/io/files/file_system.hpp"

namespace dtrain {

/// The folder of one run (docs and contract: config.yaml, run.json, log.txt, metrics.jsonl, epochs.csv, checkpoints/,
/// best.safetensors, what eval writes, DONE), on rank 0.
class RunFolder {
 public:
  /// `path` is normalised: no slash at the end, no "." or ".." in it, absolute if it would consist only of these.
  explicit RunFolder(const std::string& path);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string checkpoints() const { return file("checkpoints"); }

  /// Refuses what a run must not write into: PermissionError for something that is not a folder; ConfigError for a
  /// folder that is not empty but has no run's mark (.lock or run.json), and, by name, for anything in the place of a
  /// run's own files and folders that is not one, especially links, which would lead elsewhere. A missing folder is
  /// fine.
  void require_ours() const;
  /// Throws PermissionError unless this process may write in the folder, or where it has to be made: names the folder
  /// on the way that forbids it, its owner and this process' user.
  void require_writable() const;
  bool is_folder() const;
  /// True if a run has written here.
  bool used() const;
  bool done() const;

  /// Creates the folder and its parents. Throws PermissionError, IoError.
  void make() const;
  /// Checks with a test file that the folder is writable. `files`: that of the lock (RunLock::files). Throws
  /// PermissionError, IoError.
  void prove_writable(FileSystem& files) const;
  /// Moves a used folder to NAME.1 (or .2 …) and returns the new name.
  std::string move_aside() const;
  /// The first of NAME.ENDING, NAME.ENDING.2 … that does not exist.
  std::string free_name(const std::string& ending) const;

  /// The missing files of a finished run, by name: those that every run has, and best.safetensors if
  /// `has_best`.
  std::vector<std::string> missing_of_finished(bool has_best) const;

 private:
  bool marked() const;
  std::string path_;
};

/// What run.json holds.
struct RunFacts {
  std::vector<std::string> command;
  std::vector<std::map<std::string, std::string>> ranks_table;  ///< rank, host, local_rank, device, cores
  std::map<std::string, std::string> versions;
  std::map<std::string, std::string> texts;               ///< started, fingerprint, split_sha256 …
  std::map<std::string, double> figures;                  ///< bucket_mb, check_every …
  std::vector<std::map<std::string, double>> rank_times;  ///< where each rank's time went in the last epoch
  std::map<std::string, long long> counts;                ///< ranks, logical_ranks, steps, parameters …
};
/// Writes it completely or not at all. Throws as AtomicFile.
void write_run_json(const std::string& path, const RunFacts& facts, FileSystem& files = real_file_system());

/// One text of an earlier run.json, or `otherwise` when there is none.
std::string run_json_text(const std::string& path, const std::string& key, const std::string& otherwise);

}  // namespace dtrain
