#include "train/saves.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

// Called before each save. Metrics must reach the disk before the checkpoint that they belong to, so that a power cut
// leaves no checkpoint without its rows. A folder that no longer belongs to this job gets no checkpoint.
static void prepare_save(const RunLog& log, const RunLock& lock) {
  if (!lock.stands()) throw IoError("the run folder " + lock.what_happened());
  log.sync();
}

Saves::Saves(const std::string& folder, const Parts& parts, const Options& options, std::string newest)
    : folder_(folder),
      parts_(parts),
      options_(options),
      saved_(std::move(newest)),
      longest_s_(options.first_s),
      writer_(CheckpointFolder(folder, parts.lock.files()), options.keep,
              [parts] { prepare_save(parts.run_log, parts.lock); }) {}

// mpirun gives its ranks one second between TERM and KILL: a write that cannot end in time is not begun. If KILL does
// not come, TERM was not mpirun's, and there is time.
bool Saves::can_end() const {
  constexpr double kLast = 0.9;
  constexpr double kOver = 1.5;
  const std::optional<double> since = seconds_since_term();
  return !options_.under_mpirun || !since || *since > kOver || *since + longest_s_ < kLast;
}

void Saves::begin(const TrainingState& state, const std::vector<FileTensor>& tensors) {
  const std::string path = folder_ + "/" + CheckpointFolder::file_name(state);
  if (path == saved_ || path == begun_) return;
  while (!can_end()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  writer_.save(state, tensors);
  begun_ = path;
}

void Saves::begin_best(const std::string& path, const TrainingState& state, const std::vector<FileTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  writer_.save_tensors(path, state, tensors, metadata);
}

std::string Saves::newest_text() const {
  return saved_.empty() ? "no checkpoint is saved yet" : "the newest checkpoint is " + saved_;
}

void Saves::tell_ended() {
  for (const CheckpointWriter::Outcome& outcome : writer_.outcomes()) tell(outcome, true);
}

// A save that fails does not end training: a later one may find room again.
void Saves::tell(const CheckpointWriter::Outcome& outcome, bool goes_on) {
  longest_s_ = longest_s_ == options_.first_s ? outcome.seconds : std::max(longest_s_, outcome.seconds);
  std::string& unsaved = outcome.checkpoint ? unsaved_ : unsaved_best_;
  if (outcome.failed == 0) {
    unsaved.clear();
    if (!outcome.checkpoint) return;
    failed_ = 0;
    saved_ = outcome.path;
    parts_.run_log.event("checkpoint", outcome.step, outcome.epoch, {{"path", outcome.path}});
    parts_.log.debug("saved " + outcome.path + " in " + fixed(outcome.seconds, 2) + " s");
    return;
  }
  unsaved = outcome.why;
  if (outcome.checkpoint) {
    begun_.clear();
    ++failed_;
    parts_.run_log.event("checkpoint", outcome.step, outcome.epoch, {{"path", outcome.path}, {"failed", outcome.why}});
  }
  parts_.log.error(outcome.path + " is NOT SAVED (step " + std::to_string(outcome.step) + "): " + outcome.why + "; " +
                   (goes_on ? "training continues, " : "") + newest_text());
  if (failed_ >= options_.max_failed)
    throw IoError(count_of(failed_, "checkpoint") + " in a row could not be saved (" + outcome.why + "); " +
                  newest_text());
}

void Saves::finish(const TrainingState& state, const std::vector<FileTensor>& tensors) {
  for (const CheckpointWriter::Outcome& outcome : writer_.finish()) tell(outcome, false);
  if (!unsaved_.empty()) begin(state, tensors);
  if (!unsaved_best_.empty()) writer_.try_best_again();
  for (const CheckpointWriter::Outcome& outcome : writer_.finish()) tell(outcome, false);
  if (!unsaved_.empty()) throw IoError("the last checkpoint could not be saved: " + unsaved_ + "; " + newest_text());
  if (!unsaved_best_.empty())
    throw IoError("best.safetensors could not be saved: " + unsaved_best_ + "; " + newest_text());
}

}  // namespace dtrain
