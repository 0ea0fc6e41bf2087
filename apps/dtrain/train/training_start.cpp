// How a training run begins: from its data and a checkpoint to parts that can take a step.
#include "drawing/preview.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/tensors.hpp"
#include "dtrain/device/gpu_facts.hpp"
#include "dtrain/dist/collectives.hpp"
#include "job/epoch_columns.hpp"
#include "line/versions.hpp"
#include "train/auto_batch.hpp"
#include "train/training_run.hpp"

namespace dtrain {

static Plan plan_of(const RunContext& run, Config& config, int64_t logical_ranks) {
  require_ranks_fit(run.job.size(), logical_ranks);
  Plan plan = make_plan(run.experiment, logical_ranks);
  settle_auto_batch(run, config, plan);
  return plan;
}

// The state in which a run of this plan begins; compared with that of a run that was found.
static TrainingState first_state(const Config& config, const Plan& plan, const Job& job) {
  TrainingState state;
  state.logical_ranks = plan.logical_ranks;
  state.split_sha256 = plan.split.sha256;
  state.manifest_sha256 = plan.dataset.manifest_sha256;
  state.trained_on = training_digits(plan.dataset, plan.split);
  state.classes = plan.outputs;
  state.config = fingerprint_values(config);
  state.versions = library_versions();
  if (job.device().module != nullptr) state.versions.merge(job.device_facts());
  return state;
}

// A run that is found keeps what it began with: where a default has changed since, and where `auto` was settled.
static Resume find_and_follow(const TrainCommand& command, Config& config, const TrainingFolder& folder, Job& job) {
  Resume resume = find_resume(command, config, folder.place(), folder.files(), job);
  if (resume.resumed) keep_values_of_run(config, resume.state.config, command.resume_with);
  return resume;
}

TrainingRun::TrainingRun(const TrainCommand& command, const Config& config, Job& job)
    : config_(config),
      run_{.command = command, .config = config_, .experiment = config_.experiment, .job = job},
      folder_(run_),
      timeline_(command.trace, job),
      resume_(find_and_follow(command, config_, folder_, job)),
      plan_(plan_of(run_, config_, resume_.logical_ranks)),
      state_(first_state(config_, plan_, job)) {
  if (resume_.finished && !command.dry_run) {
    require_same_finished_run(command, config_, state_, resume_.state, folder_.path());
    return;
  }
  if (job.is_root()) timeline_.require_own();
  build();
  restore();
  if (!command.dry_run) open();
  report_->banner(resume_);
  if (command.dry_run) return;
  folder_.keep_flight_records();
  folder_.keep_rank_log();
}

void TrainingRun::build() {
  const int64_t epochs = run_.experiment.epochs;
  const int64_t epochs_left = resume_.finished ? epochs : epochs - resume_.state.epoch;
  parts_ = std::make_unique<TrainingParts>(run_, plan_, epochs_left, timeline_.trace());
  report_ = std::make_unique<TrainingReport>(TrainingReport::Parts{
      .run = run_, .plan = plan_, .built = *parts_, .folder = folder_, .state = state_, .clock = clock_});
  keeper_ = std::make_unique<Keeper>(Keeper::Parts{.run = run_,
                                                   .plan = plan_,
                                                   .built = *parts_,
                                                   .folder = folder_,
                                                   .state = state_,
                                                   .clock = clock_,
                                                   .trace = timeline_.trace()});
}

// A dry run takes a step whatever the folder holds: the next step of the run there, or the first of this configuration
// if that run is a different one (which is then reported) or has no step left.
bool TrainingRun::rehearses_afresh() {
  const RunContext& r = run_;
  try {
    if (resume_.finished) {
      require_same_finished_run(r.command, r.config, state_, resume_.state, folder_.path());
    } else {
      require_same_run(r.command, r.config, state_, resume_.state, resume_.path);
      steps_into_epoch(r.experiment, plan_, resume_.state, resume_.path);
    }
  } catch (const ConfigError& refusal) {
    refusal_ = refusal.what();
    return true;
  }
  return !step_is_left(r.experiment, plan_, resume_.state);
}

// Refuses a new run that begins where another has ended: it would train nothing and be marked as done.
void TrainingRun::require_work() const {
  const RunContext& r = run_;
  const bool of_its_own = any(r.job.comm(), r.job.is_root() && !folder_.place().used());
  if (r.command.resume.kind != ResumeFrom::Kind::path || !of_its_own || !run_is_over(r.experiment, resume_.state))
    return;
  if (resume_.state.epoch < r.experiment.epochs)
    throw ConfigError(resume_.path + " is of a run that has ended early: " + early_stop_text(r.experiment) +
                      "; to train on: early_stop.patience=N --resume-with early_stop.patience");
  throw ConfigError(resume_.path + " has finished " + count_of(resume_.state.epoch, "epoch") + ", and epochs is " +
                    std::to_string(r.experiment.epochs) + ", so nothing is left to train in " + folder_.path() +
                    "; set epochs to the number of all epochs, including those already done");
}

// On GPUs the same bits need the same kind of GPU, driver and libraries. What a CPU's need is in the build.
static void tell_changed_device(const TrainingState& now, const Resume& resume, const Job& job) {
  if (job.device().module == nullptr || !job.is_root()) return;
  const std::string changed = changed_facts(resume.state.versions, now.versions);
  if (!changed.empty())
    job.log().warning("this run goes on with other versions or on another GPU than " + resume.path +
                      " was saved with (" + changed +
                      "); its results may differ from those of a run that was never interrupted");
}

// Rank 0's, from the checkpoint. An average that the run did not keep so far begins with the weights there.
void TrainingRun::fill_replica(const EmaOptions& ema) {
  Replica& replica = *parts_->replica;
  std::vector<FileTensor> tensors = replica.checkpoint_tensors();
  const std::vector<FileTensor> averages = replica.average_tensors();
  const bool begins = !averages.empty() && resume_.file.find(averages.front().name) == nullptr;
  if (begins) tensors.resize(tensors.size() - averages.size());
  fill_tensors(resume_.file, resume_.path, tensors);
  if (begins) replica.keep_average(ema);
}

void TrainingRun::restore() {
  if (!resume_.resumed) return;
  if (run_.command.dry_run && rehearses_afresh()) {
    resume_.resumed = false;
    return;
  }
  const TrainingState now = state_;
  require_same_run(run_.command, run_.config, now, resume_.state, resume_.path);
  const int64_t into_epoch = steps_into_epoch(run_.experiment, plan_, resume_.state, resume_.path);
  if (!run_.command.dry_run) require_work();
  tell_changed_device(now, resume_, run_.job);
  state_ = resume_.state;
  state_.config = now.config;
  state_.versions = now.versions;
  state_.logical_ranks = now.logical_ranks;
  Replica& replica = *parts_->replica;
  if (state_.thawed_at >= 0 && replica.has_frozen()) parts_->trainer->thaw(state_.thawed_at);
  if (run_.job.is_root()) {
    fill_replica(run_.experiment.ema);
    replica.optimizer().set_updates(state_.optimizer_updates);
    replica.loss_scale() = state_.loss_scale;
    resume_.file = {};  // frees as much memory as a checkpoint has
  }
  replica.broadcast_from(run_.job.comm(), 0);
  parts_->schedule->resume(state_.schedule, state_.step, state_.epoch * parts_->steps_per_epoch + into_epoch);
  clock_.go_on_from(state_.elapsed_s);
}

void TrainingRun::open() {
  if (run_.job.is_root())
    folder_.open({.state = state_,
                  .resumed = resume_.resumed,
                  .logical_ranks_before = resume_.grows() ? resume_.state.logical_ranks : 0,
                  .figures = figure_columns(run_.experiment, plan_),
                  .fingerprint = parts_->fingerprint,
                  .belongings = [this]() -> TrainingFolder::Belongings {
                    return {state_, parts_->replica->checkpoint_tensors(), report_->facts("")};
                  }});
  if (run_.job.is_root() && folder_.log().begins_tensorboard()) show_preview();
  keeper_->open(resume_.path);
}

// A picture that cannot be read is no reason not to train.
void TrainingRun::show_preview() {
  try {
    folder_.log().picture("preview", state_.step, preview_sheet(run_.config, plan_));
  } catch (const Error& error) {
    run_.job.log().warning(std::string("TensorBoard gets no preview: ") + error.what());
  }
}

}  // namespace dtrain
