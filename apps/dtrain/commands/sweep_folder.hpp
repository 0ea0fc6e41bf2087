#pragma once
#include <memory>
#include <string>
#include <vector>

#include "commands/sweep_points.hpp"
#include "dtrain/runlog/run_lock.hpp"

namespace dtrain {

/// The folder of a study: study.yaml says what it is of, points.csv and scaling.csv how far it is; runs/ has a run
/// folder for each point, logs/ what its job printed and its epochs. Nothing is written outside of it.
class SweepFolder {
 public:
  explicit SweepFolder(std::string path) : path_(std::move(path)) {}

  /// Makes the folder, or takes it over from an earlier start; from here on it is locked (RunLock) while this object
  /// lives. Throws UsageError for a file, and for a folder that is neither empty nor a study's; ConfigError where
  /// another process has it; like throw_errno.
  void lock();
  /// Locks it unless it is, and says what the study is. Throws ConfigError naming what differs from the study that it
  /// holds.
  void take(const StudyAsked& asked);
  /// False where the file system has no locks.
  bool locked() const { return lock_ && lock_->held(); }

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string run_of(const SweepPoint& point) const { return file("runs/" + point.name); }
  std::string log_of(const SweepPoint& point) const { return file("logs/log_" + point.name + ".txt"); }
  /// Where the epochs.csv of a point's run is collected: logs/log_4.csv if points differ only in their ranks.
  std::string epochs_of(const SweepPlan& plan, const SweepPoint& point) const;

  /// What earlier starts left of these points: their run folders' results, and which failed. Throws ConfigError for a
  /// finished run in the place of a point that has another configuration. An empty points.csv, such as a full disk
  /// leaves, is as none; a warning says so.
  void find_standing(std::vector<JudgedPoint>& points, const Log& log) const;
  void write_points(const SweepPlan& plan, const std::vector<JudgedPoint>& points) const;

 private:
  void keep_to_begun(std::vector<JudgedPoint>& points, const Log& log) const;
  void require_same_run(const JudgedPoint& point) const;

  std::string path_;
  std::unique_ptr<RunLock> lock_;
};

}  // namespace dtrain
