#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace dtrain {

/// A point that was given to Slurm, or that a script was written for which gives it.
struct Submitted {
  std::string job = "";      ///< "4211_3"; "" while that is not known: the queue knows it by the job's name
  int64_t log_bytes = 0;     ///< of the point's log before
  int64_t output_bytes = 0;  ///< of Slurm's output before
};
/// By the point's name.
using SubmittedPoints = std::map<std::string, Submitted>;

/// jobs/submitted.csv: point, job, log_bytes, output_bytes.
std::string submitted_csv(const SubmittedPoints& points);

/// Reads it back; nothing if there is no such file. Throws as CsvTable::read(), DataError for sizes that are none.
SubmittedPoints read_submitted(const std::string& path);

}  // namespace dtrain
