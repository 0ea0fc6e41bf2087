#include "commands/sweep_slurm.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/study/slurm_call.hpp"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSubmitted = "jobs/submitted.csv";

std::string absolute(const std::string& path) { return fs::absolute(path).lexically_normal(); }

fs::path folder_of_this_program() { return fs::read_symlink("/proc/self/exe").parent_path(); }

// In a bundle the program lies beside its libraries; what people start is in bin/.
std::string program_to_start() {
  const fs::path bundled = folder_of_this_program() / "../../bin/dtrain";
  if (is_there(folder_of_this_program() / "../../share/dtrain/bundle") && is_there(bundled))
    return bundled.lexically_normal();
  return fs::read_symlink("/proc/self/exe");
}

std::string shipped_script() {
  if (const char* named = std::getenv("DTRAIN_SBATCH"); named != nullptr && *named != '\0') {
    if (!is_file(named))
      throw MissingError("DTRAIN_SBATCH=" + std::string(named) + " is no file; name the batch script");
    return absolute(named);
  }
  for (const char* root : {"../../share/dtrain", "../../.."}) {
    const fs::path script = folder_of_this_program() / root / "scripts/slurm/train.sbatch";
    if (is_file(script)) return script.lexically_normal();
  }
  throw MissingError("scripts/slurm/train.sbatch is not beside this program; name it in DTRAIN_SBATCH");
}

std::string slurm_program(const std::string& name, bool must_be_there) {
  std::string path = program_on_path(name);
  if (path.empty() && must_be_there)
    throw MissingError(name +
                       " is not on PATH; start the sweep where jobs are submitted, or write the jobs only, with "
                       "--write-only");
  return path;
}

// Those that are keys of the configuration or stand in a study file: a job gets them also when its script is submitted
// from elsewhere.
std::vector<std::string> variables_of_the_configuration() {
  std::vector<std::string> found;
  for (char** entry = ::environ; *entry != nullptr; ++entry)
    for (const char* head : {"DTRAIN_CONFIG__", "DTRAIN_STUDY=", "DTRAIN_STUDY_DATA="})
      if (std::string(*entry).starts_with(head)) found.emplace_back(*entry);
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> common_words(const SweepCommand& command) {
  std::vector<std::string> words;
  for (const std::string& file : command.config.sources.files) words.insert(words.end(), {"--config", absolute(file)});
  const std::vector<std::string>& given = command.config.sources.overrides;
  words.insert(words.end(), given.begin(), given.end());
  return words;
}

bool is_due(const JudgedPoint& point) {
  return point.row.state == PointState::waiting || point.row.state == PointState::stopped;
}

int64_t bytes_of(const std::string& path) { return is_there(path) ? file_bytes(path) : 0; }

}  // namespace

SlurmSweep::SlurmSweep(const SweepCommand& command, const Log& log) : command_(command), log_(log) {
  sbatch_ = slurm_program("sbatch", !command.write_only);
  squeue_ = slurm_program("squeue", !command.write_only);
  study_ = {.working_folder = fs::current_path(),
            .script = shipped_script(),
            .dtrain = program_to_start(),
            .words = common_words(command),
            .variables = variables_of_the_configuration(),
            .at_a_time = command.jobs};
  study_.header = sbatch_lines(read_text(study_.script));
  if (!command.site_template.empty()) site_ = read_template(read_text(command.site_template), command.site_template);
}

void SlurmSweep::lay_out(const SweepFolder& folder, const JudgedSweep& sweep) {
  study_.name = sweep.name;
  study_.folder = fs::canonical(folder.path());
  if (study_.folder.find_first_of("\\\n") != std::string::npos)
    throw UsageError("Slurm takes no output file in " + study_.folder +
                     ", because of the backslash or line break in its name; name another --output");
  std::map<int64_t, size_t> array_of;
  for (const JudgedPoint& point : sweep.points) {
    const auto [found, is_new] = array_of.try_emplace(point.row.point.ranks, arrays_.size());
    if (is_new) arrays_.push_back(array_for(point.row.point.ranks, command_.ranks_per_node));
    SlurmArray& array = arrays_[found->second];
    array.gpus |= point.gpus && command_.site_template.empty();
    array.tasks.push_back({.point = point.row.point.name,
                           .words = point.overrides,
                           .run_dir = study_.folder + "/runs/" + point.row.point.name,
                           .log = study_.folder + "/logs/log_" + point.row.point.name + ".txt"});
    places_.push_back({found->second, static_cast<int64_t>(array.tasks.size())});
  }
}

void SlurmSweep::ask_queue(const SweepFolder& folder) {
  if (squeue_.empty()) return;
  std::vector<std::string> words = squeue_words(::geteuid());
  words.insert(words.begin(), squeue_);
  const ProgramEnd end = run_program(words, folder.file("jobs/.squeue"));
  if (end.code == exit_code::kDone)
    queue_ = read_queue(end.text);
  else if (!command_.write_only)
    throw CommError("squeue does not say which points are in the queue, so nothing was submitted: " +
                    last_line(end.text));
}

// The queue is asked first: what leaves it while the folders are read has left its traces there.
void SlurmSweep::look(const SweepFolder& folder, JudgedSweep& sweep) {
  make_folders(folder.file("jobs"));
  lay_out(folder, sweep);
  submitted_ = read_submitted(folder.file(kSubmitted));
  ask_queue(folder);
  folder.find_standing(sweep.points, log_);
  for (size_t i = 0; i < sweep.points.size(); ++i) settle(places_[i], sweep.points[i]);
  folder.write_points(command_.plan, sweep.points);
  note(folder);
  for (const JudgedPoint& point : sweep.points) {
    const std::string epochs = folder.epochs_of(command_.plan, point.row.point);
    if (point.row.state == PointState::done && !is_there(epochs))
      write_file_atomically(epochs, read_text(point.row.run_dir + "/epochs.csv"));
  }
}

void SlurmSweep::settle(const Place& place, JudgedPoint& point) {
  SweepRow& row = point.row;
  const auto known = submitted_.find(row.point.name);
  if (row.state == PointState::done) {
    if (known != submitted_.end()) submitted_.erase(known);
    return;
  }
  const std::pair<std::string, int64_t> name = {job_name(study_, arrays_[place.array]), place.task};
  if (queue_ && queue_->contains(name)) {
    const QueuedTask& task = queue_->at(name);
    row.state = task.state;
    row.exit_code = 0;
    row.message = task.reason;
    submitted_[row.point.name].job = task.job;
  } else if (known != submitted_.end()) {
    settle_ended(place, point);
  }
}

void SlurmSweep::settle_ended(const Place& place, JudgedPoint& point) {
  SweepRow& row = point.row;
  const Submitted& its = submitted_.at(row.point.name);
  const SlurmArray& array = arrays_[place.array];
  const TaskEnd end = end_of_task({.log = array.tasks[static_cast<size_t>(place.task - 1)].log,
                                   .log_from = its.log_bytes,
                                   .output = output_file(study_, array, place.task),
                                   .output_from = its.output_bytes});
  row.exit_code = end.code;
  row.message = end.message;
  if (end.kind == TaskEnd::Kind::failed) {
    row.state = PointState::failed;
  } else if (!queue_ && !its.job.empty()) {  // nobody to ask
    row.state = PointState::queued;
    return;
  } else {
    row.state = row.result.epochs > 0 ? PointState::stopped : PointState::waiting;
    if (!its.job.empty())
      again_.push_back(row.point.name + ": job " + its.job +
                       " is not in the queue any more, and the point is not done" +
                       (end.message.empty() ? "" : " (" + end.message + ")"));
  }
  submitted_.erase(row.point.name);
}

std::vector<SlurmSubmission> SlurmSweep::due(const JudgedSweep& sweep) const {
  std::vector<SlurmSubmission> all;
  for (size_t array = 0; array < arrays_.size(); ++array) {
    SlurmSubmission one{arrays_[array], {}};
    for (size_t i = 0; i < places_.size(); ++i)
      if (places_[i].array == array && is_due(sweep.points[i])) one.tasks.push_back(static_cast<int>(places_[i].task));
    if (!one.tasks.empty()) all.push_back(std::move(one));
  }
  return all;
}

void SlurmSweep::write_jobs(const std::vector<SlurmSubmission>& all) const {
  for (const SlurmSubmission& one : all)
    write_file_atomically(job_file(study_, one.array),
                          job_text(study_, one.array, site_.shell, lines_for(site_, one.array)));
}

void SlurmSweep::note(const SweepFolder& folder) const {
  write_file_atomically(folder.file(kSubmitted), submitted_csv(submitted_));
}

bool SlurmSweep::submit(const SweepFolder& folder, JudgedSweep& sweep) {
  for (const std::string& sentence : again_) log_.info(sentence);
  folder.write_points(command_.plan, sweep.points);
  const std::vector<SlurmSubmission> all = due(sweep);
  write_jobs(all);
  fs::remove(folder.file("jobs/submit.sh"));  // of --write-only: from here on it would submit them a second time
  for (const SlurmSubmission& one : all)
    for (const int task : one.tasks) {
      const SlurmTask& its = one.array.tasks[static_cast<size_t>(task - 1)];
      submitted_[its.point] = {.log_bytes = bytes_of(its.log),
                               .output_bytes = bytes_of(output_file(study_, one.array, task))};
    }
  note(folder);
  if (command_.write_only) {
    written_ = !all.empty();
    if (written_) write_file_atomically(folder.file("jobs/submit.sh"), submit_script(study_, all));
    return true;
  }
  for (const SlurmSubmission& one : all) {
    if (stop_is_pending()) return false;
    submit_one(folder, one, sweep);
  }
  return true;
}

void SlurmSweep::submit_one(const SweepFolder& folder, const SlurmSubmission& one, JudgedSweep& sweep) {
  std::vector<std::string> words = sbatch_words(study_, one.array, one.tasks);
  words.insert(words.begin(), {sbatch_, "--parsable"});
  const ProgramEnd end = run_program(words, folder.file("jobs/.sbatch"));
  const std::string job = job_number_in(end.text);
  if (end.code != exit_code::kDone || job.empty())
    throw CommError("sbatch did not take the points on " + size_of(one.array) + ": " + last_line(end.text) +
                    (taken_.empty() ? "" : "; submitted before: " + join(taken_, ", ")) +
                    (command_.ranks_per_node > 0 ? "" : "; without --ranks-per-node all ranks are on one node"));
  for (const int task : one.tasks)
    submitted_[one.array.tasks[static_cast<size_t>(task - 1)].point].job = job + "_" + std::to_string(task);
  note(folder);
  for (JudgedPoint& point : sweep.points) {
    if (point.row.point.ranks != one.array.ranks || !is_due(point)) continue;
    point.row.state = PointState::queued;
    point.row.message.clear();
  }
  folder.write_points(command_.plan, sweep.points);
  taken_.push_back(count_of(static_cast<int64_t>(one.tasks.size()), "point") + " of " + size_of(one.array) +
                   " as job " + job);
  jobs_.push_back(job);
}

void require_not_at_slurm(const SweepFolder& folder) {
  const SubmittedPoints submitted = read_submitted(folder.file(kSubmitted));
  if (submitted.empty()) return;
  const auto& [point, its] = *submitted.begin();
  throw ConfigError("points of this study were given to Slurm, " + point + " for one" +
                    (its.job.empty() ? "" : " as job " + its.job) + ": go on with --launch slurm, or remove " +
                    folder.file(kSubmitted) + " when none of them is in the queue any more");
}

}  // namespace dtrain
