#include "commands/sweep_jobs.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "commands/sweep_telling.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

bool is_program(const std::string& path) { return ::access(path.c_str(), X_OK) == 0 && !fs::is_directory(path); }

// Whether a job ended with one of dtrain's own codes. Others are those of mpirun and of signals.
bool is_own(int code) { return code >= exit_code::kUsage && code <= exit_code::kReplicasDiffer; }

// Open MPI's mpirun starts nothing for root without being told twice.
void require_allowed(const std::string& log, int64_t from) {
  if (::geteuid() != 0 || read_text(log).find("run-as-root", static_cast<size_t>(from)) == std::string::npos) return;
  throw PermissionError(
      "mpirun refuses to start jobs as root; run the sweep as another user, or set OMPI_ALLOW_RUN_AS_ROOT=1 and "
      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
}

}  // namespace

// The program itself lies beside its libraries in a bundle; what people start is in bin/.
Launcher find_launcher() {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  const fs::path bundled = program.parent_path() / "../../bin";
  for (const fs::path& folder : {program.parent_path(), bundled})
    if (is_program(folder / "mpirun") && is_program(folder / "dtrain"))
      return {(folder / "mpirun").lexically_normal(), (folder / "dtrain").lexically_normal()};
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split_text(path == nullptr ? "" : path, ':'))
    if (folder.starts_with('/') && is_program(folder + "/mpirun")) return {folder + "/mpirun", program};
  throw MissingError("mpirun is not on PATH; a sweep starts its jobs with it: install Open MPI or load its module");
}

// While its job runs. Whatever is wrong with the files then is the job's to find.
static void refresh(SweepRow& row) {
  try {
    row.result = read_result(row.run_dir, row.monitor);
  } catch (const Error&) {
    return;
  }
}

SweepJobs::SweepJobs(const Parts& parts, Launcher launcher)
    : p_(parts),
      launcher_(std::move(launcher)),
      progress_(std::make_unique<ProgressLine>(parts.command.progress, false, parts.log)) {}

std::vector<std::string> SweepJobs::words_for(const JudgedPoint& point) const {
  std::vector<std::string> words = {launcher_.mpirun,  "-np",       std::to_string(point.row.processes),
                                    "--oversubscribe", "--bind-to", "none",
                                    launcher_.dtrain};
  for (const std::string& file : p_.command.config.sources.files) words.insert(words.end(), {"--config", file});
  const std::vector<std::string>& given = p_.command.config.sources.overrides;
  words.insert(words.end(), given.begin(), given.end());
  words.insert(words.end(), point.overrides.begin(), point.overrides.end());
  words.insert(words.end(), {"--run-dir", point.row.run_dir});
  return words;
}

bool SweepJobs::run() {
  write();
  for (size_t i = 0; i < p_.points.size(); ++i) {
    const PointState state = p_.points[i].row.state;
    if (state == PointState::done || state == PointState::failed) continue;
    if (stop_is_pending() || !run_point(i)) return false;
  }
  return true;
}

// False if it was stopped.
bool SweepJobs::run_point(size_t i) {
  JudgedPoint& point = p_.points[i];
  SweepRow& row = point.row;
  const std::string log = p_.folder.log_of(row.point);
  const int64_t log_began = is_there(log) ? file_bytes(log) : 0;
  const std::string head =
      "point " + std::to_string(i + 1) + "/" + std::to_string(p_.points.size()) + " " + row.point.name + ": ";
  row.state = PointState::running;
  write();
  p_.log.info(head + (row.result.epochs > 0 ? "goes on" : "starts") + " on " +
              count_of(row.processes, "process", "processes") + ", log in " + log);
  int code = 0;
  try {
    ChildJob job(words_for(point), log);
    code = wait_for(job, point);
    if (code != exit_code::kDone && !is_own(code)) require_allowed(log, log_began);
  } catch (const Error&) {
    row.state = PointState::waiting;
    write();
    throw;
  }
  settle(point, code, log_began);
  write();
  const std::string ready = ready_in(p_.points);
  const std::string rest = "  (" + count_of_states(p_.points) + (ready.empty() ? "" : ", " + ready) + ")";
  if (row.state == PointState::done)
    p_.log.info(head + "done  " + what_came_out(row) + rest);
  else if (row.state == PointState::failed)
    p_.log.warning(head + "failed with " + std::to_string(row.exit_code) + ": " + row.message + rest);
  return row.state != PointState::stopped;
}

int SweepJobs::wait_for(ChildJob& job, JudgedPoint& point) {
  constexpr auto kPoll = std::chrono::milliseconds(50);
  constexpr double kLookEvery = 1;  // seconds, at the run folder
  StopRequest passed = StopRequest::none;
  Stopwatch since_look;
  while (true) {
    if (const std::optional<int> code = job.ended()) return *code;
    pass_on(job, passed);
    if (since_look.seconds() >= kLookEvery) {
      since_look.restart();
      refresh(point.row);
    }
    const auto over = std::count_if(p_.points.begin(), p_.points.end(), [](const JudgedPoint& p) {
      return p.row.state == PointState::done || p.row.state == PointState::failed;
    });
    progress_->show(over, static_cast<int64_t>(p_.points.size()), [&] { return sweep_fields(p_.points, point); });
    std::this_thread::sleep_for(kPoll);
  }
}

// Any request to stop becomes USR1: mpirun passes it on and waits, where after TERM it would kill its ranks a second
// later.
void SweepJobs::pass_on(ChildJob& job, StopRequest& passed) {
  const StopRequest request = take_stop_request();
  if (request == StopRequest::save) job.send(SIGUSR2);
  if (request != StopRequest::stop || passed == StopRequest::stop) return;
  passed = request;
  p_.log.info("stopping: the running point saves a checkpoint first");
  job.send(SIGUSR1);
}

void SweepJobs::settle(JudgedPoint& point, int code, int64_t log_began) {
  SweepRow& row = point.row;
  const std::string log = p_.folder.log_of(row.point);
  row.result = read_result(row.run_dir, row.monitor);
  if (code == exit_code::kDone && row.result.done) {
    row.state = PointState::done;
    row.exit_code = code;
    row.message.clear();
    write_file_atomically(p_.folder.epochs_of(p_.command.plan, row.point), read_text(row.run_dir + "/epochs.csv"));
    return;
  }
  // USR1 kills a job that has only begun to start, and mpirun then returns a code of its own.
  if (code == exit_code::kStopped || (stop_is_pending() && !is_own(code))) {
    row.state = PointState::stopped;
    return;
  }
  row.state = PointState::failed;
  row.exit_code = code;
  row.message = last_sentence(log, log_began);
}

}  // namespace dtrain
