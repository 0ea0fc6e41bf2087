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
#include "dtrain/base/host.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/dist/leftovers.hpp"
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
      progress_(std::make_unique<ProgressLine>(parts.command.progress, false, parts.log)),
      places_(static_cast<size_t>(parts.command.jobs)) {}

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
  const SessionsHold hold(leftover_places());  // points begin as others end
  write();
  try {
    start_points();
    while (is_running()) {
      watch();
      start_points();
    }
  } catch (const Error&) {
    abandon();
    throw;
  }
  return std::all_of(p_.points.begin(), p_.points.end(), [](const JudgedPoint& point) {
    return point.row.state == PointState::done || point.row.state == PointState::failed;
  });
}

bool SweepJobs::is_running() const {
  return std::any_of(places_.begin(), places_.end(), [](const Running& place) { return place.job != nullptr; });
}

// Every place that is free gets the next point that is neither done nor failed.
void SweepJobs::start_points() {
  for (Running& place : places_) {
    if (place.job) continue;
    const auto waits = [&] {
      const PointState state = p_.points[next_].row.state;
      return state == PointState::waiting || state == PointState::stopped;
    };
    while (next_ < p_.points.size() && !waits()) ++next_;
    if (halted_ || stop_is_pending() || next_ == p_.points.size()) return;
    start(next_++, place);
  }
}

std::string SweepJobs::head_of(size_t i) const {
  return "point " + std::to_string(i + 1) + "/" + std::to_string(p_.points.size()) + " " + p_.points[i].row.point.name +
         ": ";
}

// An equal share; a sweep of one job at a time leaves everything to it.
std::vector<int> SweepJobs::cores_of(const Running& place) const {
  if (places_.size() == 1) return {};
  const std::vector<int> all = bound_cores();
  const size_t each = all.size() / places_.size();
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(&place - places_.data()) * each);
  return {first, first + static_cast<std::ptrdiff_t>(each)};
}

void SweepJobs::start(size_t i, Running& place) {
  SweepRow& row = p_.points[i].row;
  const std::string log = p_.folder.log_of(row.point);
  const PointState before = row.state;
  place.point = i;
  place.log_began = is_there(log) ? file_bytes(log) : 0;
  row.state = PointState::running;
  row.jobs = std::max(row.jobs, p_.command.jobs);
  try {
    write();
    p_.log.info(head_of(i) + (row.result.epochs > 0 ? "goes on" : "starts") + " on " +
                count_of(row.processes, "process", "processes") + ", log in " + log);
    place.job = std::make_unique<ChildJob>(words_for(p_.points[i]), log, ChildJob::Options{.cores = cores_of(place)});
  } catch (const Error&) {
    row.state = before;
    throw;
  }
}

// Until one of the jobs ends.
void SweepJobs::watch() {
  constexpr auto kPoll = std::chrono::milliseconds(50);
  constexpr double kLookEvery = 1;  // seconds, at the run folders
  Stopwatch since_look;
  bool any_ended = false;
  while (!any_ended) {
    pass_on();
    const bool look = since_look.seconds() >= kLookEvery;
    if (look) since_look.restart();
    std::vector<const JudgedPoint*> running;
    for (Running& place : places_) {
      if (!place.job) continue;
      if (const std::optional<int> code = place.job->ended()) {
        end(place, *code);
        any_ended = true;
        continue;
      }
      if (look) refresh(p_.points[place.point].row);
      running.push_back(&p_.points[place.point]);
    }
    if (running.empty()) return;
    const auto over = std::count_if(p_.points.begin(), p_.points.end(), [](const JudgedPoint& p) {
      return p.row.state == PointState::done || p.row.state == PointState::failed;
    });
    progress_->show(over, static_cast<int64_t>(p_.points.size()),
                    [&] { return sweep_fields(p_.points, running, p_.command.jobs); });
    if (!any_ended) std::this_thread::sleep_for(kPoll);
  }
}

void SweepJobs::end(Running& place, int code) {
  place.job.reset();
  JudgedPoint& point = p_.points[place.point];
  SweepRow& row = point.row;
  if (code != exit_code::kDone && !is_own(code)) {
    row.state = PointState::waiting;  // if it throws
    require_allowed(p_.folder.log_of(row.point), place.log_began);
  }
  settle(point, code, place.log_began);
  write();
  const std::string ready = ready_in(p_.points, p_.command.jobs);
  const std::string rest = "  (" + count_of_states(p_.points) + (ready.empty() ? "" : ", " + ready) + ")";
  if (row.state == PointState::done)
    p_.log.info(head_of(place.point) + "done  " + what_came_out(row) + rest);
  else if (row.state == PointState::failed)
    p_.log.warning(head_of(place.point) + "failed with " + std::to_string(row.exit_code) + ": " + row.message + rest);
  else
    halted_ = true;
}

// Any request to stop becomes USR1: mpirun passes it on and waits, where after TERM it would kill its ranks a second
// later.
void SweepJobs::pass_on() {
  const StopRequest request = take_stop_request();
  const bool stop = request == StopRequest::stop && !stopping_;
  if (!stop && request != StopRequest::save) return;
  if (stop) {
    halted_ = stopping_ = true;
    p_.log.info(p_.command.jobs > 1 ? "stopping: the running points save a checkpoint first"
                                    : "stopping: the running point saves a checkpoint first");
  }
  for (const Running& place : places_)
    if (place.job) place.job->send(stop ? SIGUSR1 : SIGUSR2);
}

// What no longer can be watched is ended; the next start goes on with it.
void SweepJobs::abandon() {
  for (Running& place : places_) {
    if (!place.job) continue;
    place.job.reset();
    p_.points[place.point].row.state = PointState::stopped;
  }
  try {
    write();
  } catch (const Error&) {
    return;  // the error that led here counts
  }
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
