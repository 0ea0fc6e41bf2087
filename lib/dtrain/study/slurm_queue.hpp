#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/study/points_table.hpp"

namespace dtrain {

/// A task of an array that Slurm has not finished.
struct QueuedTask {
  std::string job = "";                   ///< "4211_3", as squeue and scancel take it
  PointState state = PointState::queued;  ///< or running
  std::string reason = "";                ///< why it waits: "Priority"
};

/// By the job's name and the task's number.
using SlurmQueue = std::map<std::pair<std::string, int64_t>, QueuedTask>;

/// Options of squeue for all jobs of the user with that number.
std::vector<std::string> squeue_words(unsigned user);

/// What squeue prints with these. Lines of another form, such as a site's greeting, and jobs without a task are left
/// out. Of several with one name and number one that runs counts.
SlurmQueue read_queue(const std::string& text);

/// The number in what `sbatch --parsable` prints, on a line of its own: "4211", also of "4211;cluster"; "" if there is
/// none.
std::string job_number_in(const std::string& text);

/// How a task has ended that is no longer in the queue.
struct TaskEnd {
  enum class Kind {
    lost,     ///< nothing says that it began, or what became of it
    stopped,  ///< it can go on: cancelled, out of time, or ended with a checkpoint
    failed,
  };
  Kind kind = Kind::lost;
  int code = 0;              ///< of a failed one
  std::string message = "";  ///< "" if there is nothing to say
};

/// Where it left traces, and how long these files were when the task was submitted; either may be missing.
struct TaskTraces {
  std::string log = "";  ///< of the point: what the batch script and dtrain say
  int64_t log_from = 0;
  std::string output = "";  ///< what Slurm says
  int64_t output_from = 0;
};
/// Throws as read_text().
TaskEnd end_of_task(const TaskTraces& traces);

}  // namespace dtrain
