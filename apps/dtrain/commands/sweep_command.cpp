// dtrain sweep: one configuration on several numbers of ranks, with several values, seeds and folds; a run for each.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>

#include "commands/commands.hpp"
#include "commands/report_reading.hpp"
#include "commands/sweep_advice.hpp"
#include "commands/sweep_data.hpp"
#include "commands/sweep_folds.hpp"
#include "commands/sweep_jobs.hpp"
#include "commands/sweep_slurm.hpp"
#include "commands/sweep_study.hpp"
#include "commands/sweep_telling.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {
namespace {

void print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) std::printf("%s\n", printable(line).c_str());
}

// What runs and what is done already, before the first job; points.csv has the rest of a long one.
void tell_points(const SweepFolder& folder, const JudgedSweep& sweep, const Log& log) {
  constexpr size_t kMost = 40;
  log.info("sweep into " + folder.path() + ": " + count_of(static_cast<int64_t>(sweep.points.size()), "point") + ", " +
           count_of_states(sweep.points));
  const std::vector<std::string> lines = table_of_points(sweep.points);
  for (size_t i = 0; i < std::min(lines.size(), kMost); ++i) log.info("  " + lines[i]);
  if (lines.size() > kMost)
    log.info("  … and " + std::to_string(lines.size() - kMost) + " more: " + folder.file("points.csv"));
}

// Until here no job has failed in this start.
void forget_failures(std::vector<JudgedPoint>& points) {
  for (JudgedPoint& point : points) {
    if (point.row.state != PointState::failed) continue;
    point.row.state = point.row.result.epochs > 0 ? PointState::stopped : PointState::waiting;
    point.row.exit_code = 0;
    point.row.message.clear();
  }
}

// What to type next: the folds of one network predict together, else the best run is evaluated.
std::string next_line(const JudgedSweep& sweep, const std::vector<ScalingRow>& rows) {
  const bool only_folds = sweep.asked.plan.folds > 0 && sweep.asked.plan.repeat == 1 && rows.size() == 1 &&
                          rows.front().runs == sweep.asked.plan.folds;
  if (only_folds) {
    std::string line = "; next, for the mean over the folds: dtrain predict";
    for (const JudgedPoint& point : sweep.points) line += " --checkpoint " + shell_word(point.row.run_dir);
    return line + " --input PICTURES --output DIR";
  }
  const JudgedPoint* best = best_of(sweep.points);
  if (best == nullptr) return "";
  return "; best " + best->row.monitor.column + ": " + best->row.point.name + "; next: dtrain eval --checkpoint " +
         shell_word(best->row.run_dir);
}

// What is written and said at the end of a study: its page, and the advice that it was made for.
struct Conclusion {
  std::string written;              // ", DIR/report.html"
  std::vector<std::string> advice;  // lines
  std::string next;                 // what to type
  bool advised = false;             // points that diverged have had their say
};

void take_advice(const SweepFolder& folder, const Report& report, Conclusion& conclusion) {
  const RateAdvice& advice = *report.study->advice;
  const std::string column = report.runs.front().monitor.column;
  conclusion.advice = table_lines(advice_table(advice, column));
  conclusion.advice.emplace_back();
  for (const std::string& sentence : sentences_on(advice)) conclusion.advice.push_back(sentence);
  conclusion.advised = advice.choice.has_value();
  if (!advice.choice) return;
  const std::string file = folder.file("advice.yaml");
  write_file_atomically(file, advice_yaml(advice, column));
  conclusion.written += ", " + file;
  conclusion.next = "; next: the same configuration with --config " + shell_word(file) + " after it";
}

// What cannot be written takes nothing from the runs.
Conclusion conclude(const SweepFolder& folder, const JudgedSweep& sweep, const Log& log) {
  Conclusion conclusion;
  try {
    const Report report = read_study_report(folder.path(), sweep.name);
    write_report(report, folder.path());
    conclusion.written = ", " + folder.file("report.html");
    if (report.study->advice && !report.runs.empty()) take_advice(folder, report, conclusion);
  } catch (const Error& error) {
    log.warning(std::string(error.what()) + "; dtrain report " + shell_word(folder.path()) + " tries again");
  }
  return conclusion;
}

// The last lines of a sweep that ran to its end: tables, then what is worth knowing.
Conclusion tell_results(const SweepFolder& folder, const JudgedSweep& sweep, const std::vector<ScalingRow>& rows,
                        const std::vector<std::string>& pooled, const Log& log) {
  const Conclusion conclusion = conclude(folder, sweep, log);
  print_lines(table_of_points(sweep.points));
  if (const auto scaling = table_of_scaling(rows, sweep.points); !scaling.empty()) {
    std::printf("\n");
    print_lines(scaling);
  }
  if (!pooled.empty()) {
    std::printf("\n");
    print_lines(pooled);
  }
  if (const auto expected = lines_of_expected(sweep.asked); !expected.empty()) {
    std::printf("\n");
    print_lines(expected);
  }
  if (!conclusion.advice.empty()) {
    std::printf("\n");
    print_lines(conclusion.advice);
  }
  std::fflush(stdout);
  for (const std::string& note : notes_on(rows, sweep.points)) log.info(note);
  log.info("written: " + folder.file("points.csv") + ", " + folder.file("scaling.csv") + conclusion.written +
           (conclusion.next.empty() ? next_line(sweep, rows) : conclusion.next));
  return conclusion;
}

// Cores of a point: those of this process, shared out among the jobs at a time.
int64_t cores_each(const SweepCommand& command) {
  const auto cores = static_cast<int64_t>(bound_cores().size());
  if (command.launch == SweepLaunch::slurm) return cores;  // whose jobs run elsewhere
  if (command.jobs > cores)
    throw UsageError("--jobs " + std::to_string(command.jobs) + " is more than the " + count_of(cores, "core") +
                     " of this machine that dtrain may use; give each job a core at least");
  return cores / command.jobs;
}

// With an advice, that a rule diverges is a result.
bool has_failed(const SweepRow& row, bool advised) {
  return row.state == PointState::failed && !(advised && row.exit_code == exit_code::kDiverged);
}

[[noreturn]] void end_with_failures(const JudgedSweep& sweep, bool advised) {
  std::vector<std::string> lines;
  int code = 0;
  for (const JudgedPoint& point : sweep.points) {
    const SweepRow& row = point.row;
    if (!has_failed(row, advised)) continue;
    lines.push_back(row.point.name + " (" + std::to_string(row.exit_code) + "): " + row.message);
    const bool own = row.exit_code >= exit_code::kUsage && row.exit_code <= exit_code::kReplicasDiffer;
    if (code == 0) code = own ? row.exit_code : exit_code::kPeerFailed;
  }
  throw Error(code, with_list(std::to_string(lines.size()) + " of " +
                                  count_of(static_cast<int64_t>(sweep.points.size()), "point") +
                                  " failed; the same command with --retry-failed runs them again:",
                              lines));
}

}  // namespace

int run_sweep(const SweepCommand& typed, const Log& log) {
  SweepCommand planned = typed;
  const std::optional<AdviceAsked> advice = plan_advice(planned);
  StudySweep asked = with_study_file(planned);
  const SweepCommand& command = asked.command;
  const bool at_slurm = command.launch == SweepLaunch::slurm;
  const bool starts_jobs = !at_slurm || command.plan.folds > 0;  // folds are evaluated on this machine
  const Launcher launcher =
      starts_jobs ? find_launcher() : Launcher{"", std::filesystem::read_symlink("/proc/self/exe")};
  SweepFolder folder(command.output);
  const StudyData data = prepared_data(asked, folder, launcher, log);
  std::optional<SlurmSweep> slurm;
  if (at_slurm) slurm.emplace(command, log);
  const int64_t cores = advice ? places_for_advice(command, cores_each(command)) : cores_each(command);
  JudgedSweep sweep = judge_sweep(command, at_slurm ? std::numeric_limits<int64_t>::max() : cores);
  sweep.asked.advice = advice;
  if (command.output.empty()) folder = SweepFolder("studies/" + sweep.name);
  say_what_for(asked, sweep.asked);
  for (const std::string& warning : sweep.warnings) log.warning(warning);
  if (command.dry_run) {
    print_lines(table_of_points(sweep.points));
    log.info("dry run: " + count_of(static_cast<int64_t>(sweep.points.size()), "point") + " for " + folder.path() +
             ", all of them pass the checks of their configuration; nothing was started or written");
    return exit_code::kDone;
  }
  folder.take(sweep.asked);
  if (!folder.locked())
    log.warning("this file system has no locks: make sure that no other sweep writes into " + folder.path());
  if (slurm) {
    slurm->look(folder, sweep);
  } else {
    require_not_at_slurm(folder);
    folder.find_standing(sweep.points, log);
  }
  if (command.retry_failed) forget_failures(sweep.points);
  install_stop_handlers();
  if (!slurm) tell_points(folder, sweep, log);
  const SweepJobs::Parts parts{command, folder, sweep.points, log};
  const SweepFolds folds(parts, launcher);
  const bool to_its_end = slurm ? slurm->submit(folder, sweep) : SweepJobs(parts, launcher).run();
  std::vector<SweepRow> rows;
  for (const JudgedPoint& point : sweep.points) rows.push_back(point.row);
  const std::vector<ScalingRow> scaling = scaling_rows(command.plan, rows, sweep.name);
  write_file_atomically(folder.file("scaling.csv"), scaling_csv(scaling));
  if (to_its_end && slurm && slurm->tell(folder, sweep)) return exit_code::kDone;
  if (!to_its_end || !folds.evaluate()) {
    log.info("stopped: " + count_of_states(sweep.points) + "; the same command goes on");
    return exit_code::kStopped;
  }
  const bool advised = tell_results(folder, sweep, scaling, folds.pool(), log).advised;
  if (std::any_of(rows.begin(), rows.end(), [&](const SweepRow& row) { return has_failed(row, advised); }))
    end_with_failures(sweep, advised);
  return exit_code::kDone;
}

}  // namespace dtrain
