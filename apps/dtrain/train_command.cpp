#include <ATen/ATen.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/io/file.hpp"
#include "dtrain/runlog/progress.hpp"
#include "dtrain/runlog/run_folder.hpp"
#include "dtrain/train/evaluate.hpp"
#include "dtrain/train/trainer.hpp"
#include "resume.hpp"
#include "run.hpp"

namespace dtrain {
namespace {

std::string monitor_text(const std::string& monitor) { return split_text(monitor, '.').back(); }

// Columns of epochs.csv after the fixed ones.
std::vector<std::string> figure_columns(Task task, const std::vector<std::string>& classes) {
  std::vector<std::string> columns;
  if (task == Task::multiclass) columns.push_back("train_accuracy");
  for (const std::string& name : figure_names(task, classes)) columns.push_back("valid_" + name);
  return columns;
}

// A training run from its parts to its last line. The loop that people look for is run().
class TrainingRun {
 public:
  TrainingRun(const TrainCommand& command, const Config& config, Job& job)
      : command_(command),
        config_(config),
        e_(config.experiment),
        job_(job),
        watchdog_(make_watchdog(e_.distributed.watchdog_abort_s, job)),
        folder_(command.run_dir.empty() ? e_.output_dir + "/" + e_.name : command.run_dir),
        resume_(find_resume(command, config, folder_, job)) {
    if (resume_.finished) return;
    build();
    restore();
    if (job.is_root() && !command.dry_run) open_folder();
    banner();
  }

  int run();

 private:
  void build();
  void restore();
  void open_folder();
  void banner();
  int dry_run();
  int train();
  EpochRow close_epoch();
  bool note_best(const EpochRow& row);
  void save();
  void print_epoch(const EpochRow& row, bool best);
  void show_progress(const StepReport& step);
  int end();
  int end_early(int code);
  std::string finish();
  void write_run_json_file(const std::string& result);
  EpochRow empty_row() const;

  const TrainCommand& command_;
  const Config& config_;
  const Experiment& e_;
  Job& job_;
  std::unique_ptr<Watchdog> watchdog_;
  RunFolder folder_;
  Resume resume_;
  Plan plan_;
  TrainingState state_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Loss> loss_;
  std::unique_ptr<Schedule> schedule_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<RunLog> run_log_;         // rank 0
  std::unique_ptr<ProgressLine> progress_;  // rank 0
  std::string weights_line_;
  std::string fingerprint_;
  std::string started_ = utc_now();
  std::vector<std::map<std::string, std::string>> table_;
  Stopwatch this_start_;
  int64_t steps_this_start_ = 0;
  int64_t saved_step_ = -1;
  std::string saved_path_;
};

void TrainingRun::build() {
  const int64_t v = resume_.logical_ranks;
  if (job_.size() > v)
    throw ConfigError("there are more processes (" + std::to_string(job_.size()) + ") than logical ranks (" +
                      std::to_string(v) + "); start at most " + std::to_string(v) +
                      ", or set distributed.logical_ranks");
  plan_ = make_plan(e_, v);
  fingerprint_ = fingerprint(config_, plan_, e_.distributed.threads);
  require_agreement(job_, {{"configuration, data or build", fingerprint_}});
  replica_ = std::make_unique<Replica>(make_planned_network(e_, plan_, job_.is_root(), weights_line_),
                                       memory_format_for(e_.model.name, at::kCPU), e_.optimizer);
  replica_->broadcast_from(job_.comm(), 0);
  loss_ = std::make_unique<Loss>(make_planned_loss(e_, plan_));
  const int64_t steps =
      EpochPlan(static_cast<int64_t>(plan_.split.train.size()), v, e_.batch, e_.data.distribute, e_.seed, 0).steps();
  schedule_ = std::make_unique<Schedule>(e_.schedule, e_.optimizer.learning_rate, v, steps, e_.epochs);
  loader_ = std::make_unique<Loader>(plan_.dataset, e_.data, e_.seed, replica_->memory_format());
  trainer_ =
      std::make_unique<Trainer>(Trainer::Parts{*replica_, *loss_, *schedule_, *loader_, job_.comm(), *watchdog_,
                                               plan_.dataset, plan_.split.train},
                                Trainer::Options{e_.task, e_.seed, v, e_.distributed.threads, e_.distributed.bucket_mb,
                                                 e_.loss.l2_kernels, e_.batch, e_.data.distribute});
  monitored(empty_row(), e_.checkpoint.best_monitor);
  if (e_.schedule.decay.name == DecayName::plateau) monitored(empty_row(), e_.schedule.decay.monitor);
  if (plan_.split.valid.empty() && job_.is_root())
    job_.log().warning(
        "the data have no validation part: no validation figures, no best.safetensors; set data.split.valid");
}

EpochRow TrainingRun::empty_row() const {
  EpochRow row;
  for (const std::string& column : figure_columns(e_.task, plan_.outputs))
    row.figures.emplace_back(column, std::nullopt);
  return row;
}

void TrainingRun::restore() {
  state_.logical_ranks = plan_.logical_ranks;
  state_.split_sha256 = plan_.split.sha256;
  state_.manifest_sha256 = plan_.dataset.manifest_sha256;
  state_.classes = plan_.outputs;
  state_.config = fingerprint_values(config_);
  state_.versions = library_versions();
  if (!resume_.resumed) return;
  const TrainingState now = state_;
  require_same_run(command_, now, resume_.state, resume_.path);
  state_ = resume_.state;
  state_.config = now.config;
  state_.versions = now.versions;
  if (job_.is_root()) {
    std::vector<FileTensor> tensors = replica_->model_tensors("model.");
    for (FileTensor& tensor : replica_->optimizer_tensors()) tensors.push_back(tensor);
    fill_tensors(resume_.file, resume_.path, tensors);
    replica_->optimizer().set_updates(state_.optimizer_updates);
  }
  replica_->broadcast_from(job_.comm(), 0);
  schedule_->restore(state_.schedule);
  saved_step_ = state_.step;
  saved_path_ = resume_.path;
}

// Everything that can be refused has been by now: an older run moves aside only for one that can start.
void TrainingRun::open_folder() {
  if (command_.resume == "never" && folder_.used()) job_.log().info("the earlier run was moved to " + folder_.move_aside());
  folder_.prepare();
  folder_.remove_done();
  write_file_atomically(folder_.file("config.yaml"), config_yaml(config_, false, true));
  job_.log().attach_file(folder_.file("log.txt"));
  run_log_ = std::make_unique<RunLog>(folder_.path(), figure_columns(e_.task, plan_.outputs), state_.epoch, state_.step);
  run_log_->event(resume_.resumed ? "resume" : "start", state_.step, state_.epoch, {{"fingerprint", fingerprint_}});
  progress_ = std::make_unique<ProgressLine>(command_.progress, job_.launched(), job_.log());
}

void TrainingRun::banner() {
  table_ = job_.table();
  if (!job_.is_root()) return;
  const Log& log = job_.log();
  const auto count = [](const std::vector<int64_t>& part) { return with_commas(static_cast<int64_t>(part.size())); };
  int64_t parameters = 0;
  for (const at::Tensor& parameter : replica_->parameters()) parameters += parameter.numel();
  log.info(version_text());
  log.info("rank  host  local rank  device  cores");
  for (auto& row : table_)
    log.info(row["rank"] + "  " + row["host"] + "  " + row["local_rank"] + "  " + row["device"] + "  " + row["cores"]);
  log.info("data   " + e_.data.root + ": " + count(plan_.split.train) + " train, " + count(plan_.split.valid) +
           " valid, " + count(plan_.split.test) + " test; " +
           count_of(static_cast<int64_t>(plan_.outputs.size()), "class", "classes") + "; split " +
           plan_.split.sha256.substr(0, 12));
  for (const std::string& note : plan_.dataset.notes) log.info("       " + note);
  for (const std::string& warning : plan_.split.warnings) log.warning(warning);
  log.info("model  " + config_.values.at("model.name").text + ": " + with_commas(parameters) + " parameters, " +
           count_of(plan_.shape.outputs, "output") + "; " + weights_line_);
  const int64_t global = e_.batch.global > 0 ? e_.batch.global : e_.batch.per_rank * plan_.logical_ranks;
  log.info("batch  " + std::to_string(plan_.local_batch) + " per rank x " + std::to_string(plan_.logical_ranks) +
           " logical ranks = " + std::to_string(global) + " global; " + count_of(trainer_->steps_per_epoch(), "step") +
           " per epoch, " + count_of(e_.epochs, "epoch") + "; learning rate " + shortest(schedule_->base_rate()) +
           " -> " + shortest(schedule_->scaled_rate()));
  const auto cores = static_cast<int64_t>(bound_cores().size());
  if (job_.size() == 1 && cores > e_.distributed.threads && plan_.logical_ranks == 1)
    log.info("one process uses " + std::to_string(e_.distributed.threads) + " of " + std::to_string(cores) +
             " cores for training; mpirun -np " + std::to_string(cores) + " --bind-to none dtrain … would use all");
  if (job_.launched() && cores < e_.distributed.threads + 1)
    log.warning("each rank is bound to " + count_of(cores, "core") +
                ", which training, loading and the reducer share; mpirun --bind-to none is faster");
  if (resume_.resumed)
    log.info("resume " + resume_.path + ": " + count_of(state_.epoch, "epoch") + " finished, step " +
             std::to_string(state_.step));
  for (const std::string& skipped : resume_.skipped) log.warning("skipped a damaged checkpoint: " + skipped);
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
  const StepReport step = trainer_->step(state_, StopRequest::none);
  if (job_.is_root()) job_.log().info("dry run: one step taken, loss " + fixed(step.loss, 4) + ", nothing written");
  return exit_code::kDone;
}

int TrainingRun::train() {
  if (job_.is_root()) write_run_json_file("");
  while (state_.epoch < e_.epochs) {
    trainer_->begin_epoch(state_);
    while (trainer_->steps_left() > 0) {
      const StepReport step = trainer_->step(state_, take_stop_request());
      ++steps_this_start_;
      show_progress(step);
      const bool limit_reached = steps_this_start_ == command_.limit_steps;
      const bool save_due = e_.checkpoint.every.unit == Duration::Unit::steps &&
                            state_.step % static_cast<int64_t>(e_.checkpoint.every.amount) == 0;
      if (step.request != StopRequest::none || save_due) save();
      if (step.request == StopRequest::stop) return end_early(exit_code::kStopped);
      if (limit_reached && trainer_->steps_left() > 0) {
        save();
        return end_early(exit_code::kDone);
      }
    }
    const EpochRow row = close_epoch();
    schedule_->end_epoch(state_.step, e_.schedule.decay.name == DecayName::plateau
                                          ? monitored(row, e_.schedule.decay.monitor)
                                          : std::nullopt);
    state_.schedule = schedule_->state();
    const bool best = note_best(row);
    if (job_.is_root()) run_log_->epoch(row, state_.step);
    print_epoch(row, best);
    const bool limit_reached = command_.limit_steps > 0 && steps_this_start_ >= command_.limit_steps;
    const bool save_due = e_.checkpoint.every.unit == Duration::Unit::epochs &&
                          state_.epoch % std::max<int64_t>(1, std::llround(e_.checkpoint.every.amount)) == 0;
    const bool stop = any(job_.comm(), pending_stop_request() == StopRequest::stop);
    if (save_due || stop || limit_reached || state_.epoch == e_.epochs) save();
    if (stop && state_.epoch < e_.epochs) return end_early(exit_code::kStopped);
    if (limit_reached) return end_early(exit_code::kDone);
  }
  return end();
}

// Evaluation, and the epoch's row. Everything but times and memory is equal on all ranks.
EpochRow TrainingRun::close_epoch() {
  EpochRow row;
  row.learning_rate = schedule_->rate(state_.step - 1);
  const Trainer::Finished finished = trainer_->end_epoch(state_);
  row.epoch = state_.epoch;
  row.steps = finished.steps;
  row.samples = finished.samples;
  row.train_loss = finished.train_loss;
  row.epoch_seconds = finished.epoch_seconds;
  row.ranks = job_.size();
  row.logical_ranks = plan_.logical_ranks;
  if (e_.task == Task::multiclass)
    row.figures.emplace_back("train_accuracy",
                             static_cast<double>(finished.correct) / static_cast<double>(finished.samples));
  std::vector<Figure> figures;
  for (const std::string& name : figure_names(e_.task, plan_.outputs)) figures.push_back({name, std::nullopt});
  const Stopwatch evaluating;
  if (!plan_.split.valid.empty()) {
    const Predictions predictions = evaluate(*replica_, *loss_, e_.task, *loader_, plan_.split.valid, plan_.local_batch,
                                             job_.comm(), *watchdog_, state_.step);
    row.valid_loss = mean_loss(predictions);
    figures = figures_of(e_.task, plan_.outputs, predictions, false);
  }
  for (auto& figure : valid_figures(figures)) row.figures.push_back(figure);
  row.valid_seconds = evaluating.seconds();
  state_.elapsed_s += row.valid_seconds;
  row.elapsed_s = state_.elapsed_s;

  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const at::Tensor mine =
      at::tensor({finished.times.data_wait_s, finished.times.allreduce_s, finished.times.queue_fill,
                  static_cast<double>(finished.times.bytes_read), static_cast<double>(usage.ru_maxrss) * 1024 / 1e6},
                 at::kDouble);
  const at::Tensor all = at::stack(all_gather(job_.comm(), mine));
  const at::Tensor mean = all.mean(0);
  row.data_wait_s = mean[0].item<double>();
  row.allreduce_s = mean[1].item<double>();
  row.queue_fill = mean[2].item<double>();
  row.read_mb_per_s = row.epoch_seconds > 0 ? all.select(1, 3).sum().item<double>() / 1e6 / row.epoch_seconds : 0;
  row.memory_peak_mb = all.select(1, 4).max().item<double>();
  return row;
}

bool TrainingRun::note_best(const EpochRow& row) {
  const std::optional<double> value = monitored(row, e_.checkpoint.best_monitor);
  if (!value) return false;
  const bool better = std::isnan(state_.best_value) ||
                      (e_.checkpoint.best_is_max ? *value > state_.best_value : *value < state_.best_value);
  if (!better) return false;
  state_.best_value = *value;
  state_.best_epoch = row.epoch;
  if (job_.is_root()) {
    watchdog_->enter(Section::save, state_.step);
    const nlohmann::json classes = plan_.outputs;
    save_tensors(folder_.file("best.safetensors"), replica_->model_tensors(""),
                 {{"format", "dtrain-weights-1"},
                  {"config", config_yaml(config_, false, false)},
                  {"classes", classes.dump()},
                  {"image_size", std::to_string(plan_.shape.height) + "," + std::to_string(plan_.shape.width)},
                  {"logical_ranks", std::to_string(plan_.logical_ranks)},
                  {"epoch", std::to_string(row.epoch)},
                  {e_.checkpoint.best_monitor, shortest(*value)}});
  }
  return true;
}

void TrainingRun::save() {
  watchdog_->enter(Section::save, state_.step);
  if (!job_.is_root() || saved_step_ == state_.step) return;
  const Stopwatch saving;
  std::vector<FileTensor> tensors = replica_->model_tensors("model.");
  for (FileTensor& tensor : replica_->optimizer_tensors()) tensors.push_back(tensor);
  saved_path_ = CheckpointFolder(folder_.checkpoints()).save(state_, tensors, e_.checkpoint.keep);
  saved_step_ = state_.step;
  run_log_->event("checkpoint", state_.step, state_.epoch, {{"path", saved_path_}});
  job_.log().debug("saved " + saved_path_ + " in " + fixed(saving.seconds(), 2) + " s");
}

void TrainingRun::show_progress(const StepReport& step) {
  if (!job_.is_root()) return;
  run_log_->step(state_.step, state_.epoch, step.loss, step.learning_rate);
  Progress progress;
  progress.epoch = state_.epoch + 1;
  progress.epochs = e_.epochs;
  progress.step = trainer_->steps_done();
  progress.steps = trainer_->steps();
  progress.loss = state_.loss_sum / static_cast<double>(state_.cursor);
  progress.learning_rate = step.learning_rate;
  const double seconds = std::max(1e-9, state_.epoch_seconds);
  progress.images_per_s = static_cast<double>(state_.cursor) / seconds;
  progress.data_wait = std::min(1.0, loader_->figures().wait_s / seconds);
  const auto left = static_cast<double>((e_.epochs - state_.epoch) * trainer_->steps() - trainer_->steps_done());
  progress.eta_s = left * this_start_.seconds() / static_cast<double>(steps_this_start_);
  progress_->show(progress);
}

void TrainingRun::print_epoch(const EpochRow& row, bool best) {
  if (!job_.is_root()) return;
  progress_->clear();
  std::string line = "epoch " + std::to_string(row.epoch) + "/" + std::to_string(e_.epochs) + "  train loss " +
                     fixed(row.train_loss, 4);
  if (row.valid_loss) line += "  valid loss " + fixed(*row.valid_loss, 4);
  int shown = 0;
  for (const auto& [name, value] : row.figures)
    if (name.starts_with("valid_") && shown++ < 3)
      line += "  " + name.substr(6) + " " + (value ? fixed(*value, 4) : "undefined");
  const double seconds = std::max(1e-9, row.epoch_seconds);
  line += "  " + fixed(row.epoch_seconds + row.valid_seconds, 1) + " s  " +
          (row.images_per_s() < 100 ? fixed(row.images_per_s(), 1) : with_commas(std::llround(row.images_per_s()))) +
          " images/s  data-wait " + fixed(100 * row.data_wait_s / seconds, 0) + " %  all-reduce " +
          fixed(100 * row.allreduce_s / seconds, 0) + " %";
  if (best) line += "  best " + monitor_text(e_.checkpoint.best_monitor);
  job_.log().info(line);
}

void TrainingRun::write_run_json_file(const std::string& result) {
  RunFacts facts;
  facts.command = {"dtrain"};
  for (const std::string& file : command_.config.sources.files)
    facts.command.insert(facts.command.end(), {"--config", file});
  for (const std::string& word : command_.config.sources.overrides) facts.command.push_back(word);
  facts.ranks_table = table_;
  facts.versions = library_versions();
  facts.texts = {{"started", started_},
                 {"fingerprint", fingerprint_},
                 {"split_sha256", plan_.split.sha256},
                 {"data_sha256", plan_.dataset.manifest_sha256},
                 {"weights", weights_line_}};
  if (!result.empty()) facts.texts["result_sha256"] = result;
  facts.counts = {
      {"ranks", job_.size()}, {"logical_ranks", plan_.logical_ranks}, {"steps", state_.step}, {"epochs", state_.epoch}};
  write_run_json(folder_.file("run.json"), facts);
}

// Proves that all ranks hold the same weights, and writes their hash.
std::string TrainingRun::finish() {
  watchdog_->enter(Section::finish, state_.step);
  const std::string result = replica_->sha256();
  require_agreement(job_, {{"the trained weights", result}});
  if (!job_.is_root()) return result;
  progress_->clear();
  write_run_json_file(result);
  run_log_->event("end", state_.step, state_.epoch, {{"result_sha256", result}});
  const Log& log = job_.log();
  if (!std::isnan(state_.best_value))
    log.info("best " + e_.checkpoint.best_monitor + " " + fixed(state_.best_value, 4) + " in epoch " +
             std::to_string(state_.best_epoch) + ": " + folder_.file("best.safetensors"));
  log.info("result " + result + "  (" + count_of(state_.step, "step") + ", " + clock_text(state_.elapsed_s) + ")");
  return result;
}

int TrainingRun::end() {
  const std::string result = finish();
  if (!job_.is_root()) return exit_code::kDone;
  folder_.write_done("result_sha256 " + result + "\n");
  const std::string config =
      command_.config.sources.files.empty() ? folder_.file("config.yaml") : command_.config.sources.files.front();
  job_.log().info("done: " + folder_.file("epochs.csv") + " has the curve; next: dtrain eval --config " + config +
                  " --checkpoint " + folder_.file("best.safetensors"));
  return exit_code::kDone;
}

int TrainingRun::end_early(int code) {
  finish();
  if (job_.is_root())
    job_.log().info("stopped at step " + std::to_string(state_.step) + ", saved " + saved_path_ +
                    "; the same command goes on from there, with any number of processes up to " +
                    std::to_string(plan_.logical_ranks));
  return code;
}

}  // namespace

int run_train(const TrainCommand& command, const Config& config, Job& job) {
  return TrainingRun(command, config, job).run();
}

}  // namespace dtrain
