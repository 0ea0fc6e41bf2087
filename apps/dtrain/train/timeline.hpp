#pragma once
#include <string>
#include <vector>

#include "dtrain/base/trace.hpp"
#include "job/job.hpp"

namespace dtrain {

/// --trace: what all ranks record, and the file that it goes to. Without a path nothing is recorded, and every function
/// does nothing.
class Timeline {
 public:
  /// `path`: of the file, "": none. `job` outlives this.
  Timeline(const std::string& path, Job& job);

  Trace& trace() { return trace_; }
  /// Rank 0: throws ConfigError if the file exists and is not one of our timelines.
  void require_own() const;
  /// All ranks together, before the first step: aligns their clocks and creates the file, so that a place that cannot
  /// be written is reported now. Throws as write_file_atomically().
  void begin();
  /// All ranks together, after the last step: gives rank 0 what they recorded.
  void gather();
  /// Rank 0, after everything that matters: a timeline that cannot be written is not a reason to lose a result.
  void write() const;

 private:
  std::string path_;
  Job& job_;
  Trace trace_;
  std::vector<std::string> ranks_;  // rank 0
};

}  // namespace dtrain
