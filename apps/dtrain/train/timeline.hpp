#pragma once
#include <string>
#include <vector>

#include "dtrain/base/trace.hpp"
#include "job/job.hpp"

namespace dtrain {

/// --trace: what all ranks record, and the file that it ends in. Without a path nothing is recorded, and every function
/// does nothing.
class Timeline {
 public:
  /// `path`: of the file, "": none. `job` outlives this.
  Timeline(const std::string& path, Job& job);

  Trace& trace() { return trace_; }
  /// Rank 0: throws ConfigError where the file is there and not a timeline of ours.
  void require_own() const;
  /// All ranks together, before the first step: lays their clocks under each other and makes the file, so that a place
  /// that cannot be written is told now. Throws as write_file_atomically().
  void begin();
  /// All ranks together, after the last step: gives rank 0 what they recorded.
  void gather();
  /// Rank 0, after everything that matters: a timeline that cannot be written is no reason to lose a result.
  void write() const;

 private:
  std::string path_;
  Job& job_;
  Trace trace_;
  std::vector<std::string> ranks_;  // rank 0
};

}  // namespace dtrain
