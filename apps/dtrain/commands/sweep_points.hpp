#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dtrain/base/task.hpp"
#include "dtrain/study/points_table.hpp"
#include "dtrain/study/study_file.hpp"
#include "line/command_line.hpp"

namespace dtrain {

/// A point whose configuration has passed every check.
struct JudgedPoint {
  SweepRow row;                                    ///< without its run folder
  std::vector<std::string> overrides;              ///< that its job gets after those of the command line
  std::map<std::string, std::string> fingerprint;  ///< fingerprint_values()
  std::vector<std::string> idle_keys;
  std::vector<std::string> of_the_run;  ///< keys_of_the_run()
  std::vector<std::string> warnings;    ///< of its split
  std::string data_sha256;              ///< as run.json has it
  std::string split_sha256;
  int64_t logical_ranks = 1;
  int64_t epochs = 1;
  Task task = Task::multiclass;
  bool gpus = false;  ///< device: cuda
};

/// Every point of a sweep.
struct JudgedSweep {
  std::string name;  ///< of the configuration
  StudyAsked asked;
  std::vector<JudgedPoint> points;
  std::vector<std::string> warnings;  ///< of the points' splits, each once
};

/// Loads and checks the configuration of every point, on the data as far as training does it before its first step,
/// without starting anything. Points with more ranks than `cores` get as many processes as there are cores and keep
/// their logical ranks. Throws UsageError for axes that do not go together; one error that lists every point that would
/// be refused, with the reason, and has the code of merge_errors().
JudgedSweep judge_sweep(const SweepCommand& command, int64_t cores);

}  // namespace dtrain
