#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "commands/sweep_folder.hpp"
#include "commands/sweep_points.hpp"
#include "dtrain/base/log.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/runlog/progress.hpp"
#include "dtrain/study/child_job.hpp"
#include "line/command_line.hpp"

namespace dtrain {

/// How jobs are started on this machine.
struct Launcher {
  std::string mpirun;
  std::string dtrain;
};
/// The mpirun beside the program (a bundle's), else the first on PATH. Throws MissingError.
Launcher find_launcher();

/// Runs the points of a sweep that are neither done nor failed, one job after another.
class SweepJobs {
 public:
  struct Parts {
    const SweepCommand& command;
    const SweepFolder& folder;
    std::vector<JudgedPoint>& points;
    const Log& log;
  };
  SweepJobs(const Parts& parts, Launcher launcher);

  /// False if a signal ended it, or a job stopped by itself with a checkpoint: the rest is for the next start. A point
  /// that fails does not stop the others. Throws Error where no job can be started, and as SweepFolder::write_points().
  bool run();

 private:
  bool run_point(size_t i);
  int wait_for(ChildJob& job, JudgedPoint& point);
  void pass_on(ChildJob& job, StopRequest& passed);
  void settle(JudgedPoint& point, int code, int64_t log_began);
  std::vector<std::string> words_for(const JudgedPoint& point) const;
  void write() const { p_.folder.write_points(p_.command.plan, p_.points); }

  Parts p_;
  Launcher launcher_;
  std::unique_ptr<ProgressLine> progress_;
};

}  // namespace dtrain
