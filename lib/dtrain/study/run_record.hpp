#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dtrain {

/// One update, as metrics.jsonl has it.
struct StepRecord {
  int64_t step = 0;               ///< from 1, ascending
  double loss = 0;                ///< of training; NaN if the file has none
  std::optional<double> seconds;  ///< nothing in runs of older versions
};

/// epochs.csv.
struct EpochTable {
  std::vector<std::string> columns;
  std::vector<std::map<std::string, double>> rows;  ///< what each epoch has a value for, by column; ascending

  /// Of a row; nothing if it is empty there, or no such column exists.
  static std::optional<double> at(const std::map<std::string, double>& row, const std::string& column);
};

/// What a run left in its folder, read as text: nothing of it is needed, whatever is missing is empty here. A run may
/// still be writing.
struct RunRecord {
  std::string folder;                           ///< as it was typed, without slashes at its end
  std::map<std::string, std::string> texts;     ///< of run.json: data_sha256, split_sha256, result_sha256 …
  std::map<std::string, std::string> versions;  ///< dtrain, libtorch, mpi …
  std::map<std::string, int64_t> counts;        ///< ranks, logical_ranks, steps …
  std::map<std::string, int64_t> hosts;         ///< ranks on each, such as "node01, cuda"
  std::vector<StepRecord> steps;
  EpochTable epochs;
  bool done = false;
  std::vector<std::string> notes;  ///< sentences on what could not be read, such as a last line that was torn off

  std::string text(const std::string& key) const;  ///< "" if there is none
};

/// Throws MissingError if nothing is there, DataError for something that is not a run's folder, or holds a file that is
/// not what a run writes. The last line of a file may be cut, as a killed run leaves it.
RunRecord read_run(const std::string& folder);

}  // namespace dtrain
