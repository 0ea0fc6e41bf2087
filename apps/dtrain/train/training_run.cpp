#include "train/training_run.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/short_number.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/train/ample_memory.hpp"
#include "dtrain/train/evaluate.hpp"
#include "job/epoch_columns.hpp"
#include "train/trial_run.hpp"

namespace dtrain {

int TrainingRun::run() {
  if (run_.command.dry_run) return dry_run();
  if (resume_.finished) {
    if (run_.job.is_root()) run_.job.log().info(finished_text(run_.experiment, resume_.state, folder_.path()));
    return exit_code::kDone;
  }
  try {
    return train();
  } catch (const DivergedError& error) {
    throw DivergedError(error.what() + keeper_->way_on());
  }
}

int TrainingRun::train() {
  Job& job = run_.job;
  if (job.is_root()) report_->write_run_json("");
  timeline_.begin();
  GpuMeter gpu_meter(job.gpu_uuid());
  // A stop may have been asked for during construction.
  if (any(job.comm(), stop_is_pending())) return save_and_leave(exit_code::kStopped);
  while (!run_is_over(run_.experiment, state_)) {
    gpu_meter.take();  // discards what was sampled during the last evaluation
    if (const std::optional<int> left = train_epoch()) return *left;
    const std::optional<ClosedEpoch> epoch = close_epoch(gpu_meter);
    if (!epoch) return save_and_leave(exit_code::kStopped);
    finish_epoch(*epoch);
    const bool limit_reached = run_.command.limit_steps > 0 && clock_.steps() >= run_.command.limit_steps;
    const bool stop = any(job.comm(), stop_is_due());
    if (keeper_->due_after_epoch() || stop || limit_reached) keeper_->save();
    if (stop && !run_is_over(run_.experiment, state_)) return end_early(exit_code::kStopped);
    if (limit_reached) return end_early(exit_code::kDone);
  }
  keeper_->save();  // does nothing after the last epoch, except in a run that began with another's last checkpoint and
                    // has none of its own
  return end();
}

// Takes the remaining steps of the running epoch. Returns an exit code if the run ends during them.
std::optional<int> TrainingRun::train_epoch() {
  Trainer& trainer = *parts_->trainer;
  trainer.begin_epoch(state_);
  while (trainer.steps_left() > 0) {
    const Stopwatch stepping;
    const int64_t samples_before = state_.cursor;
    const int64_t thawed_at = state_.thawed_at;
    const StepReport step = trainer.step(state_, request());
    const double step_s = stepping.seconds();
    clock_.step_took(step_s);
    if (state_.thawed_at != thawed_at) report_->thawed();
    report_->step(step, step_s, state_.cursor - samples_before);
    keeper_->tell_saves();
    if (step.request != StopRequest::none || keeper_->due_after_step()) keeper_->save();
    if (step.request == StopRequest::stop) return end_early(exit_code::kStopped);
    const bool limit_reached = clock_.steps() == run_.command.limit_steps;
    if (limit_reached && trainer.steps_left() > 0) return save_and_leave(exit_code::kDone);
  }
  return std::nullopt;
}

// Validates, and fills the epoch's row. Everything but times and memory is equal on all ranks. Returns none if a stop
// was asked for meanwhile: the state is then the one before the validation, after the epoch's last step.
std::optional<ClosedEpoch> TrainingRun::close_epoch(GpuMeter& gpu_meter) {
  const TrainingState before = state_;
  ClosedEpoch epoch;
  EpochRow& row = epoch.row;
  row.learning_rate = parts_->schedule->rate(state_.step - 1);
  const Trainer::Finished finished = parts_->trainer->end_epoch(state_);
  const GpuUse gpu = gpu_meter.take();
  row.epoch = state_.epoch;
  row.steps = finished.steps;
  row.samples = finished.samples;
  row.skipped_steps = finished.skipped_steps;
  row.replaced_samples = finished.replaced_samples;
  if (row.replaced_samples > 0) report_->replaced(row);
  row.train_loss = finished.train_loss;
  row.ranks = run_.job.size();
  row.logical_ranks = plan_.logical_ranks;
  const Stopwatch validating;
  if (!validate({finished.samples, finished.correct, finished.train_loss}, epoch)) {
    state_ = before;
    return std::nullopt;
  }
  row.valid_seconds = validating.seconds();
  row.elapsed_s = state_.elapsed_s = clock_.run_s();
  EpochCosts costs(run_.job.comm(), finished, gpu, clock_.take_epoch_step_s());
  costs.fill(row);
  report_->note_costs(std::move(costs));
  return epoch;
}

// Predictions for the validation part, or some of it, by the weights that the replica holds now; empty without samples.
// Returns none if a stop was asked for meanwhile.
std::optional<Predictions> TrainingRun::predict_validation(const std::vector<int64_t>& samples) {
  if (samples.empty()) return Predictions();
  const auto span = timeline_.trace().span("evaluate", state_.epoch);
  return evaluate({.replica = *parts_->replica,
                   .loss = *parts_->loss,
                   .task = run_.experiment.task,
                   .loader = *parts_->batches,
                   .samples = samples,
                   .batch = plan_.local_batch,
                   .comm = run_.job.comm(),
                   .watchdog = run_.job.watchdog(),
                   .step = state_.step,
                   .stop = [this] { return stop_is_due(); }});
}

// Returns false if a stop was asked for meanwhile. Without a validation part its figures are undefined.
bool TrainingRun::validate(const TrainingCounts& counts, ClosedEpoch& epoch) {
  const Experiment& e = run_.experiment;
  EpochRow& row = epoch.row;
  const std::optional<Predictions> predictions = predict_validation(plan_.split.valid);
  if (!predictions) return false;
  if (!plan_.split.valid.empty()) {
    row.valid_loss = mean_loss(*predictions);
    const LabelCounts labels = label_counts(*predictions, plan_.shape.height * plan_.shape.width,
                                            parts_->loss->has_background(plan_.shape.outputs));
    epoch.frequencies_loss =
        parts_->loss->of_frequencies(e.task == Task::segmentation ? labels : parts_->trained_labels, labels);
    if (nothing_predicted(*predictions)) report_->nothing_found(row);
  }
  std::optional<Predictions> averaged = Predictions();
  if (e.ema.decay > 0) {
    const AveragedWeights weights(*parts_->replica);
    averaged = predict_validation(plan_.split.valid);
  }
  if (!averaged) return false;
  row.figures = figures_of_epoch(e, plan_, counts, *predictions, *averaged);
  return true;
}

// Uses the epoch's figures: for the schedule's next rates, the best weights, and the row on disk and console.
void TrainingRun::finish_epoch(const ClosedEpoch& epoch) {
  const EpochRow& row = epoch.row;
  const ScheduleOptions& schedule = run_.experiment.schedule;
  parts_->schedule->end_epoch(
      state_.step, schedule.decay.name == DecayName::plateau ? monitored(row, schedule.decay.monitor) : std::nullopt);
  state_.schedule = parts_->schedule->state();
  const EarlyStopOptions& early = run_.experiment.early_stop;
  if (early.patience > 0)
    if (const std::optional<double> value = monitored(row, early.monitor))
      state_.early_stop.note(*value, early.monitor_is_max, early.min_delta);
  const bool best = keeper_->note_best(epoch);
  if (run_.job.is_root()) {
    if (!folder_.stands()) folder_.log().keep_back();  // the row goes into the folder that is saved instead
    folder_.log().epoch(row, state_.step);
    folder_.log().ranks(report_->rank_rows(row.epoch));
    folder_.require();
    report_->update_files();
  }
  report_->epoch(row, best);
}

// --max-time: a step, the save and the hash of the result must still fit into the time.
bool TrainingRun::time_is_up() const {
  const double still_to_come = clock_.longest_step_s() + 2 * keeper_->expected_save_s();
  return run_.command.max_time_s > 0 && run_.job.seconds() + still_to_come >= run_.command.max_time_s;
}

bool TrainingRun::stop_is_due() const { return stop_is_pending() || time_is_up(); }

// What this rank asks for at the end of a step: its signals, its clocks.
StopRequest TrainingRun::request() const {
  const StopRequest signalled = take_stop_request();
  return time_is_up() ? StopRequest::stop : std::max(signalled, keeper_->request());
}

// The steps of a rehearsal: one, or as many as --limit-steps asks for, as far as the run has them; and then two batches
// of validation.
StepReport TrainingRun::rehearse() {
  Trainer& trainer = *parts_->trainer;
  trainer.begin_epoch(state_);
  StepReport step;
  for (int64_t taken = 0; taken < std::max<int64_t>(1, run_.command.limit_steps); ++taken) {
    if (trainer.steps_left() == 0) {
      trainer.end_epoch(state_);
      if (state_.epoch >= run_.experiment.epochs) break;
      trainer.begin_epoch(state_);
    }
    step = trainer.step(state_, StopRequest::none);
    clock_.step_took(0);
  }
  if (run_.command.limit_steps == 0) return step;
  const std::vector<int64_t>& valid = plan_.split.valid;
  const auto some = std::min<int64_t>(static_cast<int64_t>(valid.size()), 2 * plan_.local_batch * run_.job.size());
  predict_validation({valid.begin(), valid.begin() + some});
  return step;
}

int TrainingRun::dry_run() {
  const StepReport step = rehearse();
  if (run_.experiment.deterministic) require_ample_memory(run_.job.comm(), run_.job.device().place);  // as a save does
  if (run_.job.is_root()) {
    const Log& log = run_.job.log();
    GpuModule* gpu = run_.job.device().module;
    log.info("dry run: " + (clock_.steps() == 1 ? std::string("one step") : count_of(clock_.steps(), "step")) +
             " taken, loss " + short_number(step.loss, 4) + ", nothing written" +
             gpu_peak_text(gpu != nullptr ? std::optional(gpu->memory_peak_mb()) : std::nullopt));
    if (resume_.finished && refusal_.empty())
      log.info("a start without --dry-run would train nothing: " +
               finished_text(run_.experiment, resume_.state, folder_.path()));
  }
  if (!refusal_.empty()) throw ConfigError(refusal_);
  return exit_code::kDone;
}

// Ends rank 0's saves: afterwards everything is on the disk. Returns result_sha256.
std::string TrainingRun::finish_saves() {
  run_.job.watchdog().enter(Section::save, state_.step);
  try {
    keeper_->finish();
    const std::string result = report_->result();
    if (const std::string unwritten = folder_.log().flush(); !unwritten.empty())
      throw IoError(unwritten + "; the checkpoint is saved: " + keeper_->newest());
    folder_.log().sync();
    folder_.require();
    return result;
  } catch (const Error&) {
    folder_.require();  // if it is gone, that is the reason
    throw;
  }
}

int TrainingRun::end() {
  run_.job.watchdog().enter(Section::finish, state_.step);
  timeline_.gather();
  if (!run_.job.is_root()) return exit_code::kDone;
  write_file_atomically(folder_.file("DONE"), "result_sha256 " + finish_saves() + "\n", folder_.files());
  folder_.require_finished(!std::isnan(state_.best_value), keeper_->newest());
  timeline_.write();
  if (stopped_early(run_.experiment, state_)) run_.job.log().info("stopped early: " + early_stop_text(run_.experiment));
  const Split& split = plan_.split;
  const std::string part = !split.valid.empty() ? "" : split.test.empty() ? " --split train" : " --split test";
  run_.job.log().info("done: " + folder_.file("epochs.csv") + " has the curve; next: dtrain eval --checkpoint " +
                      shell_word(folder_.path()) + part);
  return exit_code::kDone;
}

int TrainingRun::save_and_leave(int code) {
  keeper_->save();
  return end_early(code);
}

// What the same command does after a start that ended early.
std::string TrainingRun::what_goes_on(int code) const {
  if (run_is_over(run_.experiment, state_)) return "takes no more steps and marks the run as done";
  std::string next = "continues from there";
  if (code == exit_code::kDone)
    next += ", by " + count_of(run_.command.limit_steps, "step") + ", and to the end without --limit-steps";
  return next + (plan_.logical_ranks == 1
                     ? ", on one process"
                     : ", with any number of processes up to " + std::to_string(plan_.logical_ranks));
}

int TrainingRun::end_early(int code) {
  run_.job.watchdog().enter(Section::finish, state_.step);
  timeline_.gather();
  if (!run_.job.is_root()) return code;
  finish_saves();
  timeline_.write();
  run_.job.log().info(
      "stopped at step " + std::to_string(state_.step) + (code == exit_code::kDone ? " by --limit-steps" : "") +
      ", saved " + keeper_->newest() + "; the same command " +
      (run_.command.resume.kind == ResumeFrom::Kind::newest ? "" : "with --resume auto ") + what_goes_on(code));
  return code;
}

}  // namespace dtrain
