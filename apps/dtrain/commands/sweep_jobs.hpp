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

/// Runs the points of a sweep that are neither done nor failed: as many side by side as the command says, each on its
/// share of the cores.
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
  /// A point and its job.
  struct Running {
    size_t point = 0;
    std::unique_ptr<ChildJob> job;
    int64_t log_began = 0;  ///< bytes of earlier starts in its log
  };

  void start_points();
  void start(size_t i, Running& place);
  void watch();
  void end(Running& place, int code);
  void pass_on();
  void settle(JudgedPoint& point, int code, int64_t log_began);
  void abandon();
  bool is_running() const;
  std::vector<int> cores_of(const Running& place) const;
  std::string head_of(size_t i) const;
  std::vector<std::string> words_for(const JudgedPoint& point) const;
  void write() const { p_.folder.write_points(p_.command.plan, p_.points); }

  Parts p_;
  Launcher launcher_;
  std::unique_ptr<ProgressLine> progress_;
  std::vector<Running> places_;  ///< one for each job at a time
  size_t next_ = 0;              ///< the first point that was not looked at
  bool halted_ = false;          ///< start no more
  bool stopping_ = false;        ///< a request to stop was passed on
};

}  // namespace dtrain
