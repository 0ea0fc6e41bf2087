// What a sweep on Slurm says while it has points that are not over.
#include <algorithm>
#include <cstdio>
#include <map>

#include "commands/sweep_slurm.hpp"
#include "commands/sweep_telling.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {
namespace {

// "2 done, 1 failed, 4 queued (3 Priority, 1 JobHeldUser), 1 running"
std::string counts_by_state(const std::vector<JudgedPoint>& points) {
  std::map<PointState, int64_t> count;
  std::map<std::string, int64_t> reasons;
  for (const JudgedPoint& point : points) {
    ++count[point.row.state];
    if (point.row.state == PointState::queued && !point.row.message.empty()) ++reasons[point.row.message];
  }
  std::vector<std::string> why;
  for (const auto& [reason, jobs] : reasons) why.push_back(std::to_string(jobs) + " " + reason);
  std::vector<std::string> parts;
  for (const PointState state : {PointState::done, PointState::failed, PointState::running, PointState::queued,
                                 PointState::stopped, PointState::waiting})
    if (count[state] > 0)
      parts.push_back(std::to_string(count[state]) + " " + name_of(state) +
                      (state == PointState::queued && !why.empty() ? " (" + join(why, ", ") + ")" : ""));
  return join(parts, ", ");
}

void tell_failures(const std::vector<JudgedPoint>& points, const Log& log) {
  constexpr int64_t kMostTold = 10;
  int64_t failures = 0;
  for (const JudgedPoint& point : points) {
    if (point.row.state != PointState::failed || ++failures > kMostTold) continue;
    log.warning(point.row.point.name + " failed with " + std::to_string(point.row.exit_code) + ": " +
                point.row.message);
  }
  if (failures > 0)
    log.info((failures > kMostTold ? "all " + std::to_string(failures) + " failures are in points.csv; " : "") +
             "--retry-failed submits what has failed again");
}

}  // namespace

bool SlurmSweep::tell(const SweepFolder& folder, const JudgedSweep& sweep) const {
  const bool all_over = std::all_of(sweep.points.begin(), sweep.points.end(), [](const JudgedPoint& point) {
    return point.row.state == PointState::done || point.row.state == PointState::failed;
  });
  if (all_over) return false;
  for (const std::string& line : table_of_points(sweep.points)) std::printf("%s\n", printable(line).c_str());
  std::fflush(stdout);
  tell_failures(sweep.points, log_);
  log_.info(folder.path() + ": " + counts_by_state(sweep.points));
  if (written_)
    log_.info("written: the jobs in " + folder.file("jobs") + "; nothing was submitted; next: sh " +
              shell_word(folder.file("jobs/submit.sh")) + ", or the same command without --write-only");
  else if (!jobs_.empty())
    log_.info("submitted: " + join(taken_, ", ") + "; next: squeue --jobs=" + join(jobs_, ",") +
              "; the same command says how far they are");
  else
    log_.info(
        "there is nothing to submit; the same command says how far they are, and goes on with what is cancelled or "
        "lost");
  return true;
}

}  // namespace dtrain
