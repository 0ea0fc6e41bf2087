// What a training run tells: the console, the run folder's texts, best.safetensors.
#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/short_number.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/io/file.hpp"
#include "dtrain/train/replaced_samples.hpp"
#include "training_run.hpp"

namespace dtrain {

// What `precision` means here.
static std::string precision_text(Replica& replica) {
  switch (replica.precision()) {
    case Precision::fp32:
      break;
    case Precision::tf32:
      return replica.device().place.is_cpu() ? "tf32, which a CPU computes as fp32" : "tf32";
    case Precision::bf16:
      return "bf16 with fp32 weights and sums";
    case Precision::fp16:
      return "fp16 with fp32 weights and sums, loss scale " + shortest(replica.loss_scale().scale);
  }
  return "fp32";
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
  if (!job_.why_cpu().empty()) log.debug("the CPU computes: " + job_.why_cpu());
  log.info("data   " + (e_.data.root.empty() ? "synthetic" : e_.data.root) + ": " + count(plan_.split.train) +
           " train, " + count(plan_.split.valid) + " valid, " + count(plan_.split.test) + " test; " +
           count_of(static_cast<int64_t>(plan_.outputs.size()), "class", "classes") + "; split " +
           plan_.split.sha256.substr(0, 12));
  for (const auto* notes : {&plan_.dataset.notes, &plan_.split.notes})
    for (const std::string& note : *notes) log.info("       " + note);
  for (const std::string& warning : plan_.split.warnings) log.warning(warning);
  log.info("model  " + config_.values.at("model.name").text + ": " + with_commas(parameters) + " parameters, " +
           count_of(plan_.shape.outputs, "output") + "; " + weights_line_ + "; " + precision_text(*replica_));
  const int64_t global = full_global_batch(e_.batch, plan_.logical_ranks);
  const std::string passes = e_.batch.accumulate > 1 ? " x " + std::to_string(e_.batch.accumulate) + " passes" : "";
  log.info("batch  " + std::to_string(plan_.local_batch) + " per rank x " +
           count_of(plan_.logical_ranks, "logical rank") + passes + " = " + std::to_string(global) + " global; " +
           count_of(steps_per_epoch_, "step") + " per epoch, " + count_of(e_.epochs, "epoch") + "; learning rate " +
           shortest(schedule_->base_rate()) + " -> " + shortest(schedule_->scaled_rate()));
  const GradientReducer& reducer = trainer_->reducer();
  log.info("sums   " + config_.values.at("distributed.reduction").text + " over " + reducer.transport() + "; " +
           count_of(static_cast<int64_t>(reducer.bucket_count()), "bucket") + " of up to " +
           fixed(reducer.cost().bucket_mb, 1) + " MB");
  if (!cache_line_.empty()) log.info(cache_line_);
  if (e_.data.loader.pipeline == Pipeline::sequential)
    log.info(
        "loader sequential: one sample after the other, when its batch is wanted, and each process reads and decodes "
        "those of all; the same batches as parallel, for comparison alone");
  banner_about_cores();
  if (resume_.resumed)
    log.info("resume " + resume_.path + ": " + count_of(state_.epoch, "epoch") + " finished, step " +
             std::to_string(state_.step));
  for (const std::string& skipped : resume_.skipped) log.warning("skipped a damaged checkpoint: " + skipped);
}

void TrainingRun::banner_about_cores() {
  const Log& log = job_.log();
  const auto cores = static_cast<int64_t>(bound_cores().size());
  for (auto& row : table_) {
    const auto bound = static_cast<int64_t>(read_core_ranges(row["cores"]).size());
    const std::string rank = "rank " + row["rank"] + " on " + row["host"];
    const std::string warning = binding_warning(job_.launch(), rank, bound, e_.distributed.threads + 1);
    if (warning.empty()) continue;
    log.warning(warning);
    break;  // the first speaks for all
  }
  if (!job_.device().place.is_cpu()) return;
  if (job_.size() == 1 && cores > e_.distributed.threads && plan_.logical_ranks == 1)
    log.info("one process uses " + std::to_string(e_.distributed.threads) + " of " + std::to_string(cores) +
             " cores for training; mpirun -np " + std::to_string(cores) + " --bind-to none dtrain … would use all");
  std::map<std::string, std::set<int>> cores_of;
  std::map<std::string, int64_t> ranks_of;
  for (auto& row : table_) {
    for (const int core : read_core_ranges(row["cores"])) cores_of[row["host"]].insert(core);
    ++ranks_of[row["host"]];
  }
  for (const auto& [host, ranks] : ranks_of) {
    const auto here = static_cast<int64_t>(cores_of[host].size());
    const int64_t fit = std::max<int64_t>(1, here / e_.distributed.threads);
    if (ranks > fit)
      log.warning(
          count_of(ranks, "rank") + " on " + host + " take turns on " + count_of(here, "core") + "; " +
          count_of(fit, "rank") + " there wait less" +
          (e_.distributed.reduction == Reduction::canonical
               ? ", and with distributed.logical_ranks=" + std::to_string(plan_.logical_ranks) + " give the same result"
               : ""));
  }
}

void TrainingRun::show_progress(const StepReport& step) {
  if (!job_.is_root()) return;
  constexpr double kBetweenLooks = 1;  // seconds
  const bool look = since_folder_look_.seconds() > kBetweenLooks;
  if (look && !folder_stands()) run_log_->keep_back();
  run_log_->step(state_.step, state_.epoch, step.loss, step.learning_rate, step.loss_scale, step.skipped);
  if (look) require_folder();
  if (step.skipped) tell_of_skip(step);
  Progress progress;
  progress.epoch = state_.epoch + 1;
  progress.epochs = e_.epochs;
  progress.step = trainer_->steps_done();
  progress.steps = trainer_->steps();
  progress.loss = state_.mean_loss();
  progress.learning_rate = step.learning_rate;
  const double seconds = std::max(1e-9, state_.epoch_seconds);
  progress.images_per_s = static_cast<double>(state_.cursor) / seconds;
  progress.data_wait = std::min(1.0, loader_->figures().wait_s / seconds);
  const auto left = static_cast<double>((e_.epochs - state_.epoch) * trainer_->steps() - trainer_->steps_done());
  progress.eta_s = left * this_start_.seconds() / static_cast<double>(steps_this_start_);
  progress_->show(progress);
}

// The first one, then one every 10 s at most; the epoch's line counts them all.
void TrainingRun::tell_of_skip(const StepReport& step) {
  constexpr double kBetween = 10;  // seconds
  if (since_told_of_skip_ && since_told_of_skip_->seconds() < kBetween) return;
  since_told_of_skip_ = Stopwatch();
  const std::string head = "step " + std::to_string(state_.step) + ": ";
  if (!step.not_finite.empty())
    job_.log().warning(head + step.not_finite + "; update skipped");
  else
    job_.log().info(head + "gradients beyond float16, update skipped; loss scale " +
                    shortest(step.loss_scale.value_or(0)) + " -> " + shortest(state_.loss_scale.scale));
}

// All ranks together. Those of this start are named; the count is of the whole epoch.
void TrainingRun::tell_of_replaced(const EpochRow& row) {
  const std::string sentence = "epoch " + std::to_string(row.epoch) + ": " + count_of(row.replaced_samples, "sample") +
                               " could not be decoded, others of the training part took their places";
  const std::string told = tell_replaced(job_.comm(), sentence, row.replaced_samples, trainer_->replaced());
  if (!job_.is_root()) return;
  job_.log().warning(told);
}

// Every epoch that it holds for: iou and dice are 0 then, and so are their intervals.
void TrainingRun::tell_of_nothing(const EpochRow& row) {
  if (!job_.is_root()) return;
  job_.log().warning("epoch " + std::to_string(row.epoch) +
                     ": not one pixel of the validation part was called foreground (a probability above 0.5); where "
                     "that lasts, classes may be rare (loss.pos_weight) or optimizer.learning_rate too high");
}

// After the first epoch of this start, which meets every sample of the training part.
void TrainingRun::tell_of_cache(const EpochRow& row) {
  const SharedPictures* cache = ram_cache_.pictures.get();
  if (cache == nullptr || std::exchange(told_of_cache_, true)) return;
  const auto samples = static_cast<int64_t>(plan_.split.train.size() + plan_.split.valid.size());
  const std::string sentence = "cache: " + with_commas(cache->kept()) + " of " + count_of(samples, "picture") + ", " +
                               fixed(cache->megabytes(), 1) + " MB of this host's memory after epoch " +
                               std::to_string(row.epoch);
  if (cache->full())
    job_.log().warning(sentence + "; it is full, the others are decoded in every epoch");
  else
    job_.log().info("  " + sentence);
}

void TrainingRun::print_epoch(const EpochRow& row, bool best) {
  if (!job_.is_root()) return;
  std::string line = "epoch " + std::to_string(row.epoch) + "/" + std::to_string(e_.epochs) + "  train loss " +
                     short_number(row.train_loss, 4);
  if (row.valid_loss) line += "  valid loss " + short_number(*row.valid_loss, 4);
  const size_t of_all_classes = figure_names(e_.task, {}).size();  // those of single classes are in epochs.csv
  size_t shown = 0;
  for (const auto& [name, value] : row.figures)
    if (name.starts_with("valid_") && shown++ < of_all_classes)
      line += "  valid " + name.substr(6) + " " + (value ? fixed(*value, 4) : "undefined");
  const double seconds = std::max(1e-9, row.epoch_seconds);
  line += "  " + fixed(row.epoch_seconds + row.valid_seconds, 1) + " s  " +
          (row.images_per_s() < 100 ? fixed(row.images_per_s(), 1) : with_commas(std::llround(row.images_per_s()))) +
          " images/s  compute " + fixed(100 * row.compute_s / seconds, 0) + " %  data-wait " +
          fixed(100 * row.data_wait_s / seconds, 0) + " %  all-reduce " + fixed(100 * row.allreduce_s / seconds, 0) +
          " %";
  line += "  imbalance " + fixed(100 * row.imbalance_s / seconds, 0) + " %";
  if (row.skipped_steps > 0) line += "  skipped " + count_of(row.skipped_steps, "step");
  if (row.replaced_samples > 0) line += "  replaced " + count_of(row.replaced_samples, "sample");
  if (best) line += "  best " + join(split_text(e_.checkpoint.best_monitor, '.'), " ");
  job_.log().info(line);
  tell_where_time_went();
  tell_of_cache(row);
}

// A sentence that differs from the last one in its figures alone is no news.
void TrainingRun::tell_where_time_went() {
  std::string words = where_time_went_;
  std::erase_if(words, [](char c) { return c >= '0' && c <= '9'; });
  if (!words.empty() && words != told_of_time_) job_.log().info("  " + where_time_went_);
  told_of_time_ = words;
}

// All ranks lay their clocks under each other at a barrier. The file is made now, so that a place that cannot be
// written is told before the first step.
void TrainingRun::begin_trace() {
  if (command_.trace.empty()) return;
  if (job_.is_root()) write_file_atomically(command_.trace, trace_document({}));
  trace_.name_thread("train");
  barrier(job_.comm());
  trace_.begin();
}

std::vector<std::string> TrainingRun::gather_trace() {
  if (command_.trace.empty()) return {};
  if (trace_.dropped() > 0)
    job_.log().warning("the timeline ends early: " + with_commas(trace_.dropped()) +
                       " later spans did not fit; a run with --limit-steps is shorter");
  return gather_text(job_.comm(), trace_.events_json(job_.rank(), host_name()));
}

// After everything that matters: a timeline that cannot be written is no reason to lose a result.
void TrainingRun::write_trace(const std::vector<std::string>& ranks) {
  if (command_.trace.empty()) return;
  try {
    write_file_atomically(command_.trace, trace_document(ranks));
    job_.log().info("timeline: " + command_.trace + "; open it in ui.perfetto.dev or chrome://tracing");
  } catch (const Error& error) {
    job_.log().warning(std::string("no timeline: ") + error.what());
  }
}

void TrainingRun::write_best(const EpochRow& row, double value) {
  const nlohmann::json classes = plan_.outputs;
  saves_->begin_best(folder_.file("best.safetensors"), state_, replica_->model_tensors(""),
                     {{"format", "dtrain-weights-1"},
                      {"config", config_yaml(config_, false, false)},
                      {"classes", classes.dump()},
                      {"image_size", std::to_string(plan_.shape.height) + "," + std::to_string(plan_.shape.width)},
                      {"logical_ranks", std::to_string(plan_.logical_ranks)},
                      {"split_sha256", state_.split_sha256},
                      {"trained_on", state_.trained_on},
                      {"epoch", std::to_string(row.epoch)},
                      {e_.checkpoint.best_monitor, shortest(value)}});
}

// Rank 0's variables that NCCL, CUDA's libraries and LibTorch act on, so that none changes a run unseen.
static std::string gpu_environment() {
  std::vector<std::string> settings;
  for (char** variable = environ; *variable != nullptr; ++variable)
    for (const char* prefix : {"NCCL_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "TORCH_", "PYTORCH_"})
      if (std::string_view(*variable).starts_with(prefix)) settings.emplace_back(*variable);
  std::sort(settings.begin(), settings.end());
  return join(settings, " ");
}

RunFacts TrainingRun::run_facts(const std::string& result) const {
  RunFacts facts;
  facts.command = command_.words;
  facts.ranks_table = table_;
  facts.versions = library_versions();
  facts.versions.merge(job_.device_facts());
  facts.texts = {{"started", started_},
                 {"fingerprint", fingerprint_},
                 {"split_sha256", plan_.split.sha256},
                 {"data_sha256", plan_.dataset.manifest_sha256},
                 {"weights", weights_line_},
                 {"precision", config_.values.at("precision").text}};
  if (!result.empty()) facts.texts["result_sha256"] = result;
  facts.counts = {
      {"ranks", job_.size()}, {"logical_ranks", plan_.logical_ranks}, {"steps", state_.step}, {"epochs", state_.epoch}};
  const BucketCost& bucket = trainer_->reducer().cost();
  facts.counts["buckets"] = static_cast<long long>(trainer_->reducer().bucket_count());
  facts.counts["check_every"] = trainer_->replica_check().every();
  facts.figures = {{"bucket_mb", bucket.bucket_mb}, {"check_s", trainer_->replica_check().seconds()}};
  if (bucket.latency_s > 0) {
    facts.figures["bucket_latency_us"] = bucket.latency_s * 1e6;
    facts.figures["bucket_gb_per_s"] = 1e-9 / bucket.seconds_per_byte;
  }
  if (e_.precision == Precision::fp16) facts.figures["loss_scale"] = state_.loss_scale.scale;
  facts.texts["transport"] = trainer_->reducer().transport();
  if (!job_.device().place.is_cpu()) facts.texts["gpu_environment"] = gpu_environment();
  for (int64_t rank = 0; costs_.defined() && rank < costs_.size(0); ++rank) {
    const at::Tensor of_rank = costs_[rank];
    const auto cost = of_rank.accessor<double, 1>();
    facts.rank_times.push_back(
        {{"rank", static_cast<double>(rank)},
         {"epoch", static_cast<double>(state_.epoch)},
         {"compute_s", cost[kHereCompute]},
         {"data_wait_s", cost[kHereDataWait]},
         {"update_s", cost[kHereUpdate]},
         {"compute_to_mean",
          cost[kHereCompute] / std::max(1e-9, costs_.select(1, kHereCompute).mean().item<double>())}});
  }
  return facts;
}

void TrainingRun::write_run_json_file(const std::string& result) {
  write_run_json(folder_.file("run.json"), run_facts(result), files());
}

// While training goes on a disk without room is no reason to end.
void TrainingRun::update_run_json() {
  try {
    write_run_json_file("");
  } catch (const Error& error) {
    job_.log().warning(std::string("run.json is not up to date: ") + error.what());
  }
  if (const std::string unwritten = run_log_->flush(); !unwritten.empty())
    job_.log().warning(unwritten + "; its lines wait in memory");
}

// The hash of the result, into run.json and onto the console.
std::string TrainingRun::print_result() {
  const std::string result = replica_->sha256();
  write_run_json_file(result);
  run_log_->event("end", state_.step, state_.epoch, {{"result_sha256", result}});
  const Log& log = job_.log();
  if (!std::isnan(state_.best_value))
    log.info("best " + e_.checkpoint.best_monitor + " " + short_number(state_.best_value, 4) + " in epoch " +
             std::to_string(state_.best_epoch) + ": " + folder_.file("best.safetensors"));
  if (state_.best_frequencies_loss > 0 && state_.best_loss > state_.best_frequencies_loss)
    log.warning("the validation loss of this best, " + short_number(state_.best_loss, 4) + ", is above " +
                short_number(state_.best_frequencies_loss, 4) +
                ", which answering every picture with the classes' frequencies gives: its probabilities are not to be "
                "trusted; a lower optimizer.learning_rate, or fewer epochs where epochs.csv shows that it was lower");
  log.info("result " + result + "  (" + count_of(state_.step, "step") + ", " + clock_text(state_.elapsed_s) + ")");
  return result;
}

}  // namespace dtrain
