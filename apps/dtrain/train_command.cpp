#include <ATen/ATen.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/short_number.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/io/file.hpp"
#include "dtrain/train/evaluate.hpp"
#include "dtrain/train/time_shares.hpp"
#include "training_run.hpp"

namespace dtrain {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

int run_train(const TrainCommand& command, const Config& config, Job& job) {
  return TrainingRun(command, config, job).run();
}

int TrainingRun::run() {
  if (command_.dry_run) return dry_run();
  if (resume_.finished) {
    if (job_.is_root()) job_.log().info(finished_text(resume_.state, folder_.path()));
    return exit_code::kDone;
  }
  try {
    return train();
  } catch (const DivergedError& error) {
    throw DivergedError(error.what() + way_on());
  }
}

// What a run that has diverged goes on from, on rank 0.
std::string TrainingRun::way_on() {
  if (!saves_) return "";
  try {
    saves_->note();
  } catch (const Error&) {  // a save that failed is not what ends this run
  }
  if (saves_->newest().empty()) return "; no checkpoint is saved, so the next start begins afresh";
  return "; newest checkpoint: " + saves_->newest() + " (to go on: --resume-with KEY)";
}

int TrainingRun::dry_run() {
  trainer_->begin_epoch(state_);
  const StepReport step = trainer_->step(state_, StopRequest::none);
  if (job_.is_root()) {
    job_.log().info("dry run: one step taken, loss " + short_number(step.loss, 4) + ", nothing written");
    if (resume_.finished && refusal_.empty())
      job_.log().info("a start without --dry-run trains nothing: " + finished_text(resume_.state, folder_.path()));
  }
  if (!refusal_.empty()) throw ConfigError(refusal_);
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
  gpu_meter_ = std::make_unique<GpuMeter>(job_.gpu_uuid());
  // A stop that came while all this was built.
  if (any(job_.comm(), stop_is_pending())) return save_and_leave(exit_code::kStopped);
  while (state_.epoch < e_.epochs) {
    trainer_->begin_epoch(state_);
    gpu_meter_->take();  // what was sampled in the last evaluation
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
  const GpuUse gpu = gpu_meter_->take();
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
    const LabelCounts labels = label_counts(*predictions, plan_.shape.height * plan_.shape.width);
    frequencies_loss_ = loss_->of_frequencies(e_.task == Task::segmentation ? labels : trained_labels_, labels);
    if (nothing_predicted(*predictions)) tell_of_nothing(row);
  }
  for (auto& figure : valid_figures(figures)) row.figures.push_back(figure);
  row.valid_seconds = evaluating.seconds();
  state_.elapsed_s = elapsed_before_ + this_start_.seconds();
  row.elapsed_s = state_.elapsed_s;
  note_costs(finished, gpu, row);
  return row;
}

static std::optional<double> known(double value) { return std::isnan(value) ? std::nullopt : std::optional(value); }

// Means over the ranks, but the largest memory; reading is counted together.
void TrainingRun::note_costs(const Trainer::Finished& finished, const GpuUse& gpu, EpochRow& row) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
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
  cost[kGpuUtil] = gpu.util_percent.value_or(kUnknown);
  cost[kGpuMemory] = gpu.memory_peak_mb.value_or(kUnknown);
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
  row.gpu_util_percent = known(mean[kGpuUtil]);
  row.gpu_memory_peak_mb = known(costs_.select(1, kGpuMemory).max().item<double>());
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

// Of two epochs that are equally good, the one with the lower loss.
bool TrainingRun::is_better(double value, const std::optional<double>& valid_loss) const {
  if (std::isnan(state_.best_value)) return true;
  if (value == state_.best_value) return valid_loss && *valid_loss < state_.best_loss;
  return e_.checkpoint.best_is_max ? value > state_.best_value : value < state_.best_value;
}

bool TrainingRun::note_best(const EpochRow& row) {
  const std::optional<double> value = monitored(row, e_.checkpoint.best_monitor);
  if (!value || !is_better(*value, row.valid_loss)) return false;
  state_.best_value = *value;
  state_.best_epoch = row.epoch;
  state_.best_loss = row.valid_loss.value_or(kNone);
  state_.best_frequencies_loss = row.valid_loss ? frequencies_loss_ : kNone;
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
  job_.log().info("done: " + folder_.file("epochs.csv") + " has the curve; next: dtrain eval --checkpoint " +
                  shell_word(folder_.path()));
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
