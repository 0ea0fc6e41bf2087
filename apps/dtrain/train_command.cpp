#include <ATen/ATen.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "agreement.hpp"
#include "cache_plan.hpp"
#include "commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/io/file.hpp"
#include "dtrain/io/own_output.hpp"
#include "dtrain/train/evaluate.hpp"
#include "dtrain/train/time_shares.hpp"
#include "training_run.hpp"

namespace dtrain {

int run_train(const TrainCommand& command, const Config& config, Job& job) {
  return TrainingRun(command, config, job).run();
}

// Of a run folder that is there; one that cannot be written may still be looked at: a finished run says so.
static std::unique_ptr<RunLock> lock_of(const TrainCommand& command, const RunFolder& folder, const Job& job) {
  if (!job.is_root()) return nullptr;
  folder.require_ours();
  if (command.dry_run || !folder.is_folder()) return nullptr;
  try {
    return lock_run_folder(folder, job);
  } catch (const PermissionError&) {
    return nullptr;
  }
}

TrainingRun::TrainingRun(const TrainCommand& command, const Config& config, Job& job)
    : command_(command),
      config_(config),
      e_(config.experiment),
      job_(job),
      folder_(command.run_dir.empty() ? e_.output_dir + "/" + e_.name : command.run_dir),
      lock_(lock_of(command, folder_, job)),
      trace_(!command.trace.empty()),
      resume_(find_resume(command, config, folder_, files(), job)) {
  if (resume_.finished) return;
  if (job.is_root() && !command.trace.empty()) require_own_output(command.trace, "timeline", {kTraceMark});
  build();
  restore();
  if (job.is_root() && !command.dry_run) open_folder();
  if (!command.dry_run) restore_best();
  banner();
  if (!command.dry_run) keep_flight_records();
}

// What a save may take while none was measured: a slow disk's 100 MB/s.
static double expected_save_s(const std::vector<FileTensor>& tensors) {
  double bytes = 0;
  for (const FileTensor& tensor : tensors) bytes += static_cast<double>(tensor.tensor.nbytes());
  return 0.1 + bytes / 100e6;
}

void TrainingRun::build() {
  const int64_t v = resume_.logical_ranks;
  require_ranks_fit(job_.size(), v);
  plan_ = make_plan(e_, v);
  require_partners(e_, plan_);
  require_monitors(e_, plan_);
  require_foreground(e_, plan_);
  const std::string weights = weights_sha256(e_);
  fingerprint_ = fingerprint(config_, plan_, weights, job_);
  replica_ = std::make_unique<Replica>(make_planned_network(e_, plan_, job_.is_root(), weights_line_),
                                       memory_format_for(e_.model.name, job_.device().place.type()), e_.optimizer,
                                       job_.device(), e_.precision);
  require_agreement(job_, facts_of_plan(plan_, replica_->network(), weights));
  replica_->broadcast_from(job_.comm(), 0);
  first_save_s_ = expected_save_s(checkpoint_tensors());
  loss_ = std::make_unique<Loss>(make_planned_loss(e_, plan_, job_.device().place));
  steps_per_epoch_ =
      EpochPlan(static_cast<int64_t>(plan_.split.train.size()), v, e_.batch, e_.data.distribute, e_.seed, 0).steps();
  schedule_ = std::make_unique<Schedule>(e_.schedule, e_.optimizer.learning_rate, v, steps_per_epoch_, e_.epochs);
  make_cache();
  loader_ = make_planned_loader(e_, plan_, *replica_, trace_, job_.cores(), {cache_.get(), ram_cache_.pictures.get()});
  batches_ = std::make_unique<DeviceBatches>(*loader_, job_.device(), cache_.get());
  trainer_ = std::make_unique<Trainer>(
      Trainer::Parts{*replica_, *loss_, *schedule_, *batches_, job_.comm(), job_.watchdog(), plan_.dataset,
                     plan_.split.train, trace_},
      Trainer::Options{e_.task, e_.seed, v, e_.distributed, e_.loss.l2_kernels, e_.optimizer.clip_norm, e_.batch,
                       e_.data.distribute, e_.skip_not_finite, e_.cuda_graphs,
                       MixOptions{e_.data.augment.mixup, e_.data.augment.cutmix}, e_.data.loader},
      job_.gradient_comm(e_.distributed.reduction));
  if (plan_.split.valid.empty() && job_.is_root())
    job_.log().warning(
        "the data have no validation part: no validation figures, no best.safetensors; set data.split.valid");
}

void TrainingRun::make_cache() {
  if (e_.data.loader.cache == PictureKeep::none) return;
  if (e_.data.loader.cache == PictureKeep::ram) {
    ram_cache_ = make_ram_cache(e_, plan_, job_);
    cache_line_ = ram_cache_.line;
    if (job_.is_root() && !ram_cache_.note.empty()) job_.log().warning(ram_cache_.note);
    return;
  }
  cache_ = std::make_unique<PictureCache>(static_cast<int64_t>(plan_.dataset.samples.size()));
  const std::vector<std::string> hosts = all_gather_text(job_.comm(), host_name());
  const bool own_gpu = !job_.device().place.is_cpu() && !e_.distributed.share_device;
  const auto sharers = own_gpu ? 1 : std::count(hosts.begin(), hosts.end(), host_name());
  const CachePlan cache =
      plan_cache(e_, plan_, first_kind(e_, plan_), job_.size(), job_.rank(), e_.epochs - resume_.state.epoch);
  const double free_mb = memory_for_cache(job_.device(), sharers);
  require_cache_fits(e_, cache, job_.device(), free_mb);
  cache_line_ = "cache  " + cache_text(e_, cache) + " in each process, which can have " +
                with_commas(static_cast<int64_t>(free_mb)) + " MB";
}

void TrainingRun::restore() {
  state_.logical_ranks = plan_.logical_ranks;
  state_.split_sha256 = plan_.split.sha256;
  state_.manifest_sha256 = plan_.dataset.manifest_sha256;
  state_.trained_on = training_digits(plan_.dataset, plan_.split);
  state_.classes = plan_.outputs;
  state_.config = fingerprint_values(config_);
  state_.versions = library_versions();
  if (!resume_.resumed) return;
  const TrainingState now = state_;
  require_same_run(command_, now, resume_.state, resume_.path);
  require_step_boundary(e_, plan_, resume_.state, resume_.path);
  state_ = resume_.state;
  state_.config = now.config;
  state_.versions = now.versions;
  if (job_.is_root()) {
    std::vector<FileTensor> tensors = replica_->model_tensors("model.");
    for (FileTensor& tensor : replica_->optimizer_tensors()) tensors.push_back(tensor);
    fill_tensors(resume_.file, resume_.path, tensors);
    replica_->optimizer().set_updates(state_.optimizer_updates);
    replica_->loss_scale() = state_.loss_scale;
    resume_.file = {};  // as large as a checkpoint
  }
  replica_->broadcast_from(job_.comm(), 0);
  schedule_->restore(state_.schedule);
  elapsed_before_ = state_.elapsed_s;
}

// best.safetensors is written beside the checkpoints: after a failure, or a resume from an older or another run's
// checkpoint, it may be none, or of an epoch that this run has not seen. Its weights cannot be had again, so the best
// of what is still to come counts.
void TrainingRun::restore_best() {
  const bool mine =
      !job_.is_root() || best_is_of(folder_.file("best.safetensors"), state_, e_.checkpoint.best_monitor, files());
  if (!any(job_.comm(), !mine)) return;
  if (job_.is_root()) set_best_aside();
  state_.best_value = std::numeric_limits<double>::quiet_NaN();
  state_.best_epoch = 0;
}

int TrainingRun::run() {
  if (resume_.finished) {
    if (job_.is_root())
      job_.log().info(
          folder_.path() +
          " is finished with this configuration; nothing to do. More epochs: add epochs=N; a new run: --resume never");
    return exit_code::kDone;
  }
  return command_.dry_run ? dry_run() : train();
}

int TrainingRun::dry_run() {
  if (state_.epoch >= e_.epochs) return exit_code::kDone;
  trainer_->begin_epoch(state_);
  if (trainer_->steps_left() == 0) {
    if (job_.is_root())
      job_.log().info("dry run: the checkpoint stands at the end of an epoch's steps; nothing written");
    return exit_code::kDone;
  }
  const StepReport step = trainer_->step(state_, StopRequest::none);
  if (job_.is_root()) job_.log().info("dry run: one step taken, loss " + fixed(step.loss, 4) + ", nothing written");
  return exit_code::kDone;
}

// --max-time: what is still to come must end before: a step, the save, the hash of the result.
bool TrainingRun::time_is_up() const {
  return command_.max_time_s > 0 && job_.seconds() + longest_step_s_ + 2 * first_save_s_ >= command_.max_time_s;
}

// What this rank asks for at a step's end: its signals, its clock. Rank 0's clock alone asks for saves.
StopRequest TrainingRun::request() {
  const StopRequest signalled = take_stop_request();
  if (time_is_up()) return StopRequest::stop;
  const Duration& every = e_.checkpoint.every;
  const bool save_due =
      job_.is_root() && every.unit == Duration::Unit::seconds && since_save_.seconds() >= every.amount;
  return std::max(signalled, save_due ? StopRequest::save : StopRequest::none);
}

int TrainingRun::train() {
  if (job_.is_root()) write_run_json_file("");
  begin_trace();
  // A stop that came while all this was built.
  if (any(job_.comm(), stop_is_pending())) return save_and_leave(exit_code::kStopped);
  while (state_.epoch < e_.epochs) {
    trainer_->begin_epoch(state_);
    while (trainer_->steps_left() > 0) {
      const Stopwatch stepping;
      const StepReport step = trainer_->step(state_, request());
      longest_step_s_ = std::max(longest_step_s_, stepping.seconds());
      ++steps_this_start_;
      show_progress(step);
      note_saves();
      const bool limit_reached = steps_this_start_ == command_.limit_steps;
      const bool save_due = e_.checkpoint.every.unit == Duration::Unit::steps &&
                            state_.step % static_cast<int64_t>(e_.checkpoint.every.amount) == 0;
      if (step.request != StopRequest::none || save_due) save();
      if (step.request == StopRequest::stop) return end_early(exit_code::kStopped);
      if (limit_reached && trainer_->steps_left() > 0) return save_and_leave(exit_code::kDone);
    }
    const std::optional<EpochRow> row = close_epoch();
    if (!row) return save_and_leave(exit_code::kStopped);
    schedule_->end_epoch(state_.step, e_.schedule.decay.name == DecayName::plateau
                                          ? monitored(*row, e_.schedule.decay.monitor)
                                          : std::nullopt);
    state_.schedule = schedule_->state();
    const bool best = note_best(*row);
    if (job_.is_root()) {
      if (!folder_stands()) run_log_->keep_back();  // the row goes into the folder that is saved beside
      run_log_->epoch(*row, state_.step);
      require_folder();
      update_run_json();
    }
    print_epoch(*row, best);
    const bool limit_reached = command_.limit_steps > 0 && steps_this_start_ >= command_.limit_steps;
    const bool stop = any(job_.comm(), stop_is_pending() || time_is_up());
    if (epoch_save_due() || stop || limit_reached) save();
    if (stop && state_.epoch < e_.epochs) return end_early(exit_code::kStopped);
    if (limit_reached) return end_early(exit_code::kDone);
  }
  save();  // nothing to do after the last epoch; a run that began with another's last checkpoint has none of its own
  return end();
}

// Evaluation, and the epoch's row. Everything but times and memory is equal on all ranks. Nothing when a stop was asked
// for during the evaluation: the state then stands before it, after the epoch's last step.
std::optional<EpochRow> TrainingRun::close_epoch() {
  const TrainingState before = state_;
  EpochRow row;
  row.learning_rate = schedule_->rate(state_.step - 1);
  const Trainer::Finished finished = trainer_->end_epoch(state_);
  row.epoch = state_.epoch;
  row.steps = finished.steps;
  row.samples = finished.samples;
  row.skipped_steps = finished.skipped_steps;
  row.replaced_samples = finished.replaced_samples;
  if (row.replaced_samples > 0) tell_of_replaced(row);
  row.train_loss = finished.train_loss;
  row.epoch_seconds = finished.epoch_seconds;
  row.ranks = job_.size();
  row.logical_ranks = plan_.logical_ranks;
  if (e_.task == Task::multiclass)
    row.figures.emplace_back("train_accuracy",
                             static_cast<double>(finished.correct) / static_cast<double>(finished.samples));
  std::vector<Figure> figures;
  for (const std::string& name : figure_names(e_.task, plan_.outputs)) figures.push_back({name, std::nullopt, {}});
  const Stopwatch evaluating;
  if (!plan_.split.valid.empty()) {
    const auto span = trace_.span("evaluate", row.epoch);
    const std::optional<Predictions> predictions =
        evaluate(*replica_, *loss_, e_.task, *batches_, plan_.split.valid, plan_.local_batch, job_.comm(),
                 job_.watchdog(), state_.step, [this] { return stop_is_pending() || time_is_up(); });
    if (!predictions) {
      state_ = before;
      return std::nullopt;
    }
    row.valid_loss = mean_loss(*predictions);
    figures = figures_of(e_.task, plan_.outputs, *predictions);
  }
  for (auto& figure : valid_figures(figures)) row.figures.push_back(figure);
  row.valid_seconds = evaluating.seconds();
  state_.elapsed_s = elapsed_before_ + this_start_.seconds();
  row.elapsed_s = state_.elapsed_s;
  note_costs(finished, row);
  return row;
}

// Means over the ranks, but the largest memory; reading is counted together.
void TrainingRun::note_costs(const Trainer::Finished& finished, EpochRow& row) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const at::Tensor mine = at::empty({kCosts}, at::kDouble);
  auto cost = mine.accessor<double, 1>();
  cost[kDataWait] = finished.data_wait_s;
  cost[kAllReduce] = finished.allreduce_s;
  cost[kCompute] = finished.compute_s;
  cost[kUpdate] = finished.update_s;
  cost[kQueueFill] = finished.loaded.queue_fill;
  cost[kMegabytes] = static_cast<double>(finished.bytes_read) / 1e6;
  cost[kMemory] = static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
  cost[kHereDataWait] = finished.loaded.wait_s;
  cost[kHereAllReduce] = finished.here.allreduce_s;
  cost[kHereCompute] = finished.here.compute_s;
  cost[kHereUpdate] = finished.here.update_s;
  cost[kHereRead] = finished.loaded.read_s;
  cost[kHereDecode] = finished.loaded.decode_s;
  cost[kHereMegabytes] = static_cast<double>(finished.loaded.bytes_read) / 1e6;
  costs_ = at::stack(all_gather(job_.comm(), mine));
  const at::Tensor means = costs_.mean(0);
  const auto mean = means.accessor<double, 1>();
  row.data_wait_s = mean[kDataWait];
  row.allreduce_s = mean[kAllReduce];
  row.compute_s = mean[kCompute];
  row.update_s = mean[kUpdate];
  row.imbalance_s = finished.imbalance_s;
  row.queue_fill = mean[kQueueFill];
  row.read_mb_per_s = row.epoch_seconds > 0 ? mean[kMegabytes] * job_.size() / row.epoch_seconds : 0;
  row.memory_peak_mb = costs_.select(1, kMemory).max().item<double>();
  where_time_went_ = time_sentence(time_shares(finished));
}

// Of this start: its own clocks, not those of earlier starts of the epoch.
TimeShares TrainingRun::time_shares(const Trainer::Finished& finished) const {
  const at::Tensor means = costs_.mean(0);
  const auto mean = means.accessor<double, 1>();
  TimeShares shares;
  shares.epoch_s = finished.here.here_s;
  shares.compute_s = mean[kHereCompute];
  shares.allreduce_s = mean[kHereAllReduce];
  shares.imbalance_s = finished.here.imbalance_s;
  shares.update_s = mean[kHereUpdate];
  shares.data_wait_s = mean[kHereDataWait];
  shares.read_s = mean[kHereRead];
  shares.decode_s = mean[kHereDecode];
  shares.queue_fill = mean[kQueueFill];
  shares.read_mb_per_s = shares.epoch_s > 0 ? mean[kHereMegabytes] / shares.epoch_s : 0;
  shares.loader_threads = loader_->threads();
  shares.spare_cores = std::max<int64_t>(0, job_.cores() - e_.distributed.threads);
  const at::Tensor compute = costs_.select(1, kHereCompute);
  shares.slowest_rank = compute.argmax().item<int64_t>();
  const double slowest = compute.max().item<double>();
  const double others = (compute.sum().item<double>() - slowest) / std::max(1, job_.size() - 1);
  shares.slowest_compute_ratio = job_.size() > 1 && others > 0 ? slowest / others : 1;
  return shares;
}

bool TrainingRun::note_best(const EpochRow& row) {
  const std::optional<double> value = monitored(row, e_.checkpoint.best_monitor);
  if (!value) return false;
  const bool better = std::isnan(state_.best_value) ||
                      (e_.checkpoint.best_is_max ? *value > state_.best_value : *value < state_.best_value);
  if (!better) return false;
  state_.best_value = *value;
  state_.best_epoch = row.epoch;
  job_.watchdog().enter(Section::save, state_.step);
  if (job_.is_root() && folder_stands()) write_best(row, *value);
  return true;
}

bool TrainingRun::epoch_save_due() const {
  const Duration& every = e_.checkpoint.every;
  const bool due =
      every.unit == Duration::Unit::epochs && state_.epoch % std::max<int64_t>(1, std::llround(every.amount)) == 0;
  return due || state_.epoch == e_.epochs;
}

std::vector<FileTensor> TrainingRun::checkpoint_tensors() const {
  std::vector<FileTensor> tensors = replica_->model_tensors("model.");
  for (FileTensor& tensor : replica_->optimizer_tensors()) tensors.push_back(tensor);
  return tensors;
}

// All ranks together.
void TrainingRun::save() {
  job_.watchdog().enter(Section::save, state_.step);
  state_.elapsed_s = elapsed_before_ + this_start_.seconds();
  trainer_->require_equal_replicas(state_.step);  // drifted replicas must not become the newest checkpoint
  since_save_.restart();
  const auto span = trace_.span("save", state_.step);
  if (!saves_) return;
  require_folder();
  saves_->begin(state_, checkpoint_tensors());
}

// Rank 0's, at the end: everything is on the disk afterwards. Returns result_sha256.
std::string TrainingRun::finish_saves() {
  job_.watchdog().enter(Section::save, state_.step);
  try {
    saves_->finish(state_, checkpoint_tensors());
    const std::string result = print_result();
    if (const std::string unwritten = run_log_->flush(); !unwritten.empty())
      throw IoError(unwritten + "; the checkpoint is saved: " + saves_->newest());
    run_log_->sync();
    require_folder();
    return result;
  } catch (const Error&) {
    require_folder();  // where it is gone, that is the reason
    throw;
  }
}

int TrainingRun::end() {
  job_.watchdog().enter(Section::finish, state_.step);
  const std::vector<std::string> timeline = gather_trace();
  if (!job_.is_root()) return exit_code::kDone;
  write_file_atomically(folder_.file("DONE"), "result_sha256 " + finish_saves() + "\n", files());
  require_finished_folder();
  write_trace(timeline);
  const bool has_best = !std::isnan(state_.best_value);
  job_.log().info("done: " + folder_.file("epochs.csv") + " has the curve; next: dtrain eval --config " +
                  folder_.file("config.yaml") + " --checkpoint " +
                  (has_best ? folder_.file("best.safetensors") : saves_->newest()));
  return exit_code::kDone;
}

int TrainingRun::save_and_leave(int code) {
  save();
  return end_early(code);
}

int TrainingRun::end_early(int code) {
  job_.watchdog().enter(Section::finish, state_.step);
  const std::vector<std::string> timeline = gather_trace();
  if (!job_.is_root()) return code;
  finish_saves();
  write_trace(timeline);
  job_.log().info("stopped at step " + std::to_string(state_.step) + ", saved " + saves_->newest() +
                  "; the same command " + (command_.resume == "auto" ? "" : "with --resume auto ") +
                  "goes on from there, with any number of processes up to " + std::to_string(plan_.logical_ranks));
  return code;
}

}  // namespace dtrain
