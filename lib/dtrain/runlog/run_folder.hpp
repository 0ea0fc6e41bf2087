#pragma once
#include <map>
#include <string>
#include <vector>

namespace dtrain {

/// The folder of one run (docs and contract: config.yaml, run.json, log.txt, metrics.jsonl, epochs.csv, checkpoints/,
/// best.safetensors, predictions.csv, DONE), on rank 0.
class RunFolder {
 public:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string checkpoints() const { return file("checkpoints"); }

  /// Throws PermissionError when something that is no folder stands at path().
  void require_folder() const;
  bool is_folder() const;
  /// True if a run has written here.
  bool used() const;
  bool done() const;
  void remove_done() const;
  void write_done(const std::string& text) const;

  /// Makes the folder and proves with a test file that it can be written. Throws PermissionError, IoError.
  void prepare() const;
  /// Moves a used folder to NAME.1 (or .2 …) and returns the new name.
  std::string move_aside() const;

 private:
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
void write_run_json(const std::string& path, const RunFacts& facts);

/// One text of an earlier run.json, or `otherwise` when there is none.
std::string run_json_text(const std::string& path, const std::string& key, const std::string& otherwise);

}  // namespace dtrain
