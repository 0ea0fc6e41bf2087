#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commands/sweep_folder.hpp"
#include "commands/sweep_points.hpp"
#include "dtrain/base/log.hpp"
#include "dtrain/study/slurm_job.hpp"
#include "dtrain/study/slurm_queue.hpp"
#include "dtrain/study/slurm_submitted.hpp"
#include "dtrain/study/slurm_template.hpp"
#include "line/command_line.hpp"

namespace dtrain {

/// A sweep whose points are jobs of Slurm: the points on one number of ranks are an array. A start submits what is
/// neither finished, failed nor in the queue, and does not wait. A point is noted in jobs/submitted.csv before it is
/// submitted; the queue knows it by the job's name, so a start that was killed in between loses none and submits none
/// twice.
class SlurmSweep {
 public:
  /// Finds sbatch, squeue and the shipped batch script, and reads the template. Throws MissingError where one is
  /// missing (--write-only needs no programs), as read_template() and like throw_errno.
  SlurmSweep(const SweepCommand& command, const Log& log);

  /// The standing of all points: SweepFolder::find_standing(), and for those that were submitted the queue, or how they
  /// ended. Throws CommError where squeue gives no answer, and as these two.
  void look(const SweepFolder& folder, JudgedSweep& sweep);

  /// Writes the jobs and submits points that wait or were stopped; with --write-only it writes submit.sh instead. False
  /// if a signal ended it. Throws CommError if sbatch refuses, after what it took was noted.
  bool submit(const SweepFolder& folder, JudgedSweep& sweep);

  /// Prints how the points stand, what was submitted and what comes next. False if all of them are over: then it says
  /// nothing.
  bool tell(const SweepFolder& folder, const JudgedSweep& sweep) const;

 private:
  /// Which array a point belongs to, and its number there.
  struct Place {
    size_t array = 0;
    int64_t task = 1;
  };
  void lay_out(const SweepFolder& folder, const JudgedSweep& sweep);
  void ask_queue(const SweepFolder& folder);
  void settle(const Place& place, JudgedPoint& point);
  void settle_ended(const Place& place, JudgedPoint& point);
  std::vector<SlurmSubmission> due(const JudgedSweep& sweep) const;
  void write_jobs(const std::vector<SlurmSubmission>& all) const;
  void submit_one(const SweepFolder& folder, const SlurmSubmission& one, JudgedSweep& sweep);
  void note(const SweepFolder& folder) const;

  const SweepCommand& command_;
  const Log& log_;
  std::string sbatch_;
  std::string squeue_;
  SlurmTemplate site_;
  SlurmStudy study_;
  std::vector<SlurmArray> arrays_;
  std::vector<Place> places_;  // of the sweep's points, in their order
  std::optional<SlurmQueue> queue_;
  SubmittedPoints submitted_;
  bool written_ = false;            // submit.sh
  std::vector<std::string> again_;  // sentences about points that ended before they were done
  std::vector<std::string> taken_;  // "3 points on 4 ranks as job 4211"
  std::vector<std::string> jobs_;   // "4211"
};

/// Throws ConfigError if points of the study were given to Slurm: their jobs may be in its queue.
void require_not_at_slurm(const SweepFolder& folder);

}  // namespace dtrain
