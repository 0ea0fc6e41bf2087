#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/study/number_table.hpp"

namespace dtrain {

/// One update, as metrics.jsonl has it.
struct StepRecord {
  int64_t step = 0;               ///< from 1, ascending
  double loss = 0;                ///< of training; NaN if the file has none
  std::optional<double> seconds;  ///< nothing in runs of older versions
};

/// What a run left in its folder, read as text: nothing of it is needed, whatever is missing is empty here. A run may
/// still be writing.
struct RunRecord {
  std::string folder;                           ///< as it was typed, without slashes at its end
  std::map<std::string, std::string> texts;     ///< of run.json: data_sha256, split_sha256, result_sha256 …
  std::map<std::string, std::string> versions;  ///< dtrain, libtorch, mpi …
  std::map<std::string, int64_t> counts;        ///< ranks, logical_ranks, steps …
  std::map<std::string, int64_t> hosts;         ///< ranks on each, such as "node01, cuda"
  std::vector<std::string> host_of_rank;        ///< "node01"
  std::vector<StepRecord> steps;
  NumberTable epochs;  ///< epochs.csv: rows ascend by `epoch`; of one that was trained again the later row
  NumberTable ranks;   ///< ranks.csv
  bool done = false;
  std::vector<std::string> notes;  ///< sentences on what is missing, such as a last line that was torn off
  std::vector<FileFault> faults;   ///< what no run writes: rows, fields or files that are left out

  std::string text(const std::string& key) const;  ///< "" if there is none
  int64_t count(const std::string& key) const;     ///< 0 if there is none
  int64_t nodes() const;                           ///< different hosts; 0 = not known
};

/// What is read beside epochs.csv, run.json and DONE.
struct RunParts {
  bool steps = false;  ///< metrics.jsonl, the largest of a run's texts
  bool ranks = false;  ///< ranks.csv
};

/// Reads what is there, of a folder that may be missing too: damage becomes a fault, and the rest is read. The last
/// line of a file may be cut, as a killed run leaves it. Throws as read_text() for a file that cannot be read at all.
RunRecord look_at_run(const std::string& folder, const RunParts& parts);

/// A run's folder whose texts are whole, with its steps. Throws MissingError if nothing is there, DataError for
/// something that is not a run's folder, or for the first fault.
RunRecord read_run(const std::string& folder);

/// Whether the folder holds any of the texts that a run writes.
bool is_run_folder(const std::string& folder);

}  // namespace dtrain
