// What a training run does about its folder: opens it, sees to it that it is still there, and what each rank leaves in
// it.
#include <fcntl.h>

#include <cerrno>
#include <cmath>
#include <filesystem>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/io/file.hpp"
#include "dtrain/runlog/flight_records.hpp"
#include "save_beside.hpp"
#include "training_run.hpp"

namespace dtrain {

// Everything that can be refused has been by now: an older run moves aside only for one that can start.
void TrainingRun::open_folder() {
  if (command_.resume == "never" && folder_.used()) {
    job_.log().info("the earlier run was moved to " + folder_.move_aside());
    lock_.reset();
  }
  folder_.make();
  if (!lock_) {
    lock_ = lock_run_folder(folder_, job_);
    if (folder_.used() && !resume_.resumed && command_.resume != "never")
      throw ConfigError("another job has begun in " + folder_.path() + " meanwhile; start again to go on from there");
  }
  folder_.prove_writable(files());
  if (!resume_.resumed && std::filesystem::exists(folder_.path() + ".rescued"))
    job_.log().warning("this run begins afresh, and " + folder_.path() +
                       ".rescued holds what an earlier one could save of itself; --run-dir goes on from there");
  // Later checkpoints first: rows are never cut before the checkpoints that they belong to.
  const CheckpointFolder checkpoints(folder_.checkpoints(), files());
  for (const std::string& aside : checkpoints.begin_after(state_.step, state_.epoch))
    job_.log().warning("a checkpoint of a later step was set aside as " + aside);
  run_log_ = std::make_unique<RunLog>(folder_.path(), figure_columns(e_.task, plan_.outputs), state_.epoch, state_.step,
                                      files());
  const std::string log = folder_.file("log.txt");
  const int descriptor = files().open(log, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (descriptor < 0) throw_errno("write", log, -descriptor);
  job_.log().attach_file(descriptor);
  write_file_atomically(folder_.file("config.yaml"), config_yaml(config_, false, true), files());
  if (const int failed = files().unlink(folder_.file("DONE")); failed < 0 && failed != -ENOENT)
    throw_errno("remove", folder_.file("DONE"), -failed);
  remove_flight_records(folder_.path(), files());
  started_ = resume_.resumed ? run_json_text(folder_.file("run.json"), "started", utc_now()) : utc_now();
  run_log_->event(resume_.resumed ? "resume" : "start", state_.step, state_.epoch, {{"fingerprint", fingerprint_}});
  progress_ = std::make_unique<ProgressLine>(command_.progress, job_.launched(), job_.log());
  const std::string standing = checkpoints.path() + "/" + CheckpointFolder::file_name(state_);
  saves_ = std::make_unique<Saves>(
      checkpoints.path(), Saves::Parts{job_.log(), *run_log_, *lock_},
      Saves::Options{e_.checkpoint.keep, e_.checkpoint.max_failed, job_.under_mpirun(), first_save_s_},
      resume_.path == standing ? standing : "");
}

// Rank 0's, before a save and at the end: what is written lands in the folder that was opened, wherever it is by now,
// so somebody must see to it that its name still leads there.
void TrainingRun::require_folder() {
  since_folder_look_.restart();
  if (folder_stands()) return;
  save_beside({folder_, *lock_, *run_log_}, state_, checkpoint_tensors(), config_yaml(config_, false, true),
              run_facts(""));
}

void TrainingRun::require_finished_folder() {
  require_folder();
  std::vector<std::string> missing = folder_.missing_of_finished(!std::isnan(state_.best_value));
  FileSystem::Status status;
  if (files().status(saves_->newest(), false, status) != 0) missing.push_back("its newest checkpoint");
  if (missing.empty()) return;
  files().unlink(folder_.file("DONE"));
  throw IoError("the run folder " + folder_.path() + " has lost " + join(missing, ", ") +
                " while it was in use; the run has ended, but somebody removed a part of what it wrote");
}

// Rank 0 has made the folder by now. Another host may see it a little later.
void TrainingRun::keep_flight_records() {
  const std::string path = folder_.path();
  std::shared_ptr<HeldFolder> held;
  try {
    held = std::make_shared<HeldFolder>(path);
  } catch (const Error&) {
  }
  job_.watchdog().keep_records([path, held](const FlightRecord& record) {
    if (held) return write_flight_record(path, record, *held);
    HeldFolder late(path);
    write_flight_record(path, record, late);
  });
}

void TrainingRun::note_saves() {
  if (!saves_) return;
  try {
    saves_->note();
  } catch (const Error&) {
    require_folder();  // where it is gone, that is the reason
    throw;
  }
}

void TrainingRun::set_best_aside() {
  const std::string path = folder_.file("best.safetensors");
  const std::string aside = path + ".aside";
  const int renamed = files().rename(path, aside);
  const bool there = renamed == 0;
  if (!there && renamed != -ENOENT) throw_errno("set aside", path, -renamed);
  const std::string wanted = std::isnan(state_.best_value) ? "none" : "epoch " + std::to_string(state_.best_epoch);
  job_.log().warning((there ? "best.safetensors is of another epoch than this run's best (" + wanted +
                                  ") and was set aside as " + aside
                            : "best.safetensors (" + wanted + ") is not there") +
                     "; the best epoch from here on will be kept");
}

}  // namespace dtrain
