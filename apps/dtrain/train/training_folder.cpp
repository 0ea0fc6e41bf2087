#include "train/training_folder.hpp"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/dist/launch.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/watch/flight_records.hpp"
#include "train/save_beside.hpp"

namespace dtrain {

// Keeps other jobs out of the existing run folder; names in the log a job that was killed before it could release it.
static std::unique_ptr<RunLock> lock_run_folder(const RunFolder& folder, const Job& job) {
  auto lock = std::make_unique<RunLock>(folder.path(), RunLock::this_process());
  if (!lock->held())
    job.log().warning("the file system of " + folder.path() + " has no locks: make sure that no second job uses it");
  if (!lock->left_by().empty())
    job.log().info("taking over " + folder.path() + ": the previous job did not end properly (" + lock->left_by() +
                   ")");
  return lock;
}

TrainingFolder::TrainingFolder(const RunContext& run)
    : run_(run),
      folder_(run.command.run_dir.empty() ? run.experiment.output_dir + "/" + run.experiment.name
                                          : run.command.run_dir) {
  if (!run.job.is_root()) return;
  folder_.require_ours();
  if (run.command.dry_run) return;
  if (!folder_.is_folder()) {
    folder_.require_writable();
    return;
  }
  try {
    lock_ = lock_run_folder(folder_, run.job);
  } catch (const PermissionError&) {  // it can still be read: a finished run says so
  }
}

void TrainingFolder::open(const Beginning& beginning) {
  Log& log = run_.job.log();
  const TrainingState& state = beginning.state;
  const bool afresh = run_.command.resume.kind == ResumeFrom::Kind::nothing;
  if (afresh && folder_.used()) {
    log.info("the earlier run was moved to " + folder_.move_aside());
    lock_.reset();
  }
  folder_.require_writable();
  folder_.make();
  if (!lock_) {
    lock_ = lock_run_folder(folder_, run_.job);
    if (folder_.used() && !beginning.resumed && !afresh)
      throw ConfigError("another job has begun in " + path() + " meanwhile; start again to resume from there");
  }
  folder_.prove_writable(files());
  if (!beginning.resumed && std::filesystem::exists(path() + ".rescued"))
    log.warning("this run begins from scratch, and " + path() +
                ".rescued holds what an earlier one could save of itself; --run-dir resumes from there");
  // Later checkpoints first: rows are never cut before the checkpoints that they belong to.
  for (const std::string& aside : CheckpointFolder(folder_.checkpoints(), files()).begin_after(state.step, state.epoch))
    log.warning("a checkpoint of a later step was set aside as " + aside);
  log_ = std::make_unique<RunLog>(path(), beginning.figures, state.epoch, state.step, files(),
                                  run_.experiment.tensorboard);
  log.attach_file(open_to_append(file("log.txt"), files()));
  write_file_atomically(file("config.yaml"), config_yaml(run_.config, false, true), files());
  if (const int failed = files().unlink(file("DONE")); failed < 0 && failed != -ENOENT)
    throw_errno("remove", file("DONE"), -failed);
  remove_flight_records(path(), files());
  started_ = beginning.resumed ? run_json_text(file("run.json"), "started", utc_now()) : utc_now();
  std::map<std::string, std::string> facts = {{"fingerprint", beginning.fingerprint}};
  if (beginning.logical_ranks_before > 0)
    facts["logical_ranks"] =
        std::to_string(beginning.logical_ranks_before) + " -> " + std::to_string(state.logical_ranks);
  log_->event(beginning.resumed ? "resume" : "start", state.step, state.epoch, facts);
  belongings_ = beginning.belongings;
}

bool TrainingFolder::look_is_due() const {
  constexpr double kBetweenLooks = 1;  // seconds
  return since_look_.seconds() > kBetweenLooks;
}

void TrainingFolder::require() {
  since_look_.restart();
  if (stands()) return;
  const Belongings left = belongings_();
  save_beside({folder_, *lock_, *log_}, left.state, left.tensors, config_yaml(run_.config, false, true), left.facts);
}

void TrainingFolder::require_finished(bool has_best, const std::string& newest_checkpoint) {
  require();
  std::vector<std::string> missing = folder_.missing_of_finished(has_best);
  FileSystem::Status status;
  if (files().status(newest_checkpoint, false, status) != 0) missing.push_back("its newest checkpoint");
  if (missing.empty()) return;
  files().unlink(file("DONE"));
  throw IoError("the run folder " + path() + " has lost " + join(missing, ", ") +
                " while it was in use; the run has ended, but somebody removed a part of what it wrote");
}

// Another host than rank 0's may see the folder a little later.
void TrainingFolder::keep_rank_log() const {
  if (!run_.command.log_all_ranks) return;
  constexpr double kMostS = 10;
  constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
  for (const Stopwatch waiting; !folder_.is_folder() && waiting.seconds() < kMostS;)
    std::this_thread::sleep_for(kBetweenLooks);
  Job& job = run_.job;
  const std::string name = "log.rank-" + std::to_string(job.rank()) + ".txt";
  try {
    job.log().attach_file(open_to_append(file(name), files()), LogLevel::debug);
  } catch (const Error& error) {
    return job.log().error(name + ": " + error.what() + "; this rank goes on without its log");
  }
  job.log().debug(job.name() + " of " + std::to_string(job.size()) + ": process " + std::to_string(::getpid()) + ", " +
                  count_of(run_.experiment.distributed.threads, "thread") + ", " + count_of(job.cores(), "core") +
                  " of its own");
}

// Likewise, so a folder that is not seen yet is opened when there is something to write.
void TrainingFolder::keep_flight_records() const {
  const std::string path = folder_.path();
  std::shared_ptr<HeldFolder> held;
  try {
    held = std::make_shared<HeldFolder>(path);
  } catch (const Error&) {
  }
  run_.job.watchdog().keep_records([path, held](const FlightRecord& record) {
    if (held) return write_flight_record(path, record, *held);
    HeldFolder late(path);
    write_flight_record(path, record, late);
  });
}

}  // namespace dtrain
