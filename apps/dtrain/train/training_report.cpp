#include "train/training_report.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/short_number.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/train/replaced_samples.hpp"
#include "job/epoch_columns.hpp"
#include "line/versions.hpp"
#include "train/banner.hpp"

namespace dtrain {

void TrainingReport::banner(const Resume& resume) {
  Job& job = p_.run.job;
  PictureFacts pictures;  // before the table, at which the other ranks wait, so that none waits in the first step
  if (job.is_root() && !resume.resumed) pictures = glance_at_pictures(p_.run.experiment, p_.plan);
  table_ = job.table();
  if (job.is_root() && !p_.run.command.dry_run)
    progress_ = std::make_unique<ProgressLine>(p_.run.command.progress, job.launched(), job.log());
  if (job.is_root()) tell_beginning(p_.run, p_.plan, p_.built, p_.state, resume, table_, pictures);
  job.advise_on_memory(broadcast_text(job.comm(), job.memory_advice()));
}

void TrainingReport::step(const StepReport& step, double seconds, int64_t samples) {
  if (!p_.run.job.is_root()) return;
  const bool look = p_.folder.look_is_due();
  if (look && !p_.folder.stands()) p_.folder.log().keep_back();
  p_.folder.log().step({.step = p_.state.step,
                        .epoch = p_.state.epoch,
                        .loss = step.loss,
                        .learning_rate = step.learning_rate,
                        .loss_scale = step.loss_scale,
                        .skipped = step.skipped,
                        .seconds = seconds,
                        .samples = samples});
  if (look) p_.folder.require();
  if (step.skipped) tell_of_skip(step);
  show_progress(step);
}

void TrainingReport::show_progress(const StepReport& step) {
  const TrainingState& state = p_.state;
  const Trainer& trainer = *p_.built.trainer;
  const int64_t epochs = p_.run.experiment.epochs;
  const double seconds = std::max(1e-9, state.timing.epoch_seconds);
  const auto left = static_cast<double>((epochs - state.epoch) * trainer.steps() - trainer.steps_done());
  progress_->show(Progress{.epoch = state.epoch + 1,
                           .epochs = epochs,
                           .step = trainer.steps_done(),
                           .steps = trainer.steps(),
                           .loss = state.mean_loss(),
                           .learning_rate = step.learning_rate,
                           .images_per_s = static_cast<double>(state.cursor) / seconds,
                           .data_wait = std::min(1.0, p_.built.loader->figures().wait_s / seconds),
                           .eta_s = left * p_.clock.seconds_a_step()});
}

// Reports the first skipped update, then at most one every 10 s; the epoch's line counts them all.
void TrainingReport::tell_of_skip(const StepReport& step) {
  constexpr double kBetween = 10;  // seconds
  if (since_told_of_skip_ && since_told_of_skip_->seconds() < kBetween) return;
  since_told_of_skip_ = Stopwatch();
  const std::string head = "step " + std::to_string(p_.state.step) + ": ";
  if (!step.not_finite.empty())
    log().warning(head + step.not_finite + "; update skipped");
  else
    log().info(head + "gradients beyond float16, update skipped; loss scale " + shortest(step.loss_scale.value_or(0)) +
               " -> " + shortest(p_.state.loss_scale.scale));
}

void TrainingReport::replaced(const EpochRow& row) const {
  const std::string sentence = "epoch " + std::to_string(row.epoch) + ": " + count_of(row.replaced_samples, "sample") +
                               " could not be decoded and were replaced by others of the training part";
  const std::string told =
      tell_replaced(p_.run.job.comm(), sentence, row.replaced_samples, p_.built.trainer->replaced());
  if (!p_.run.job.is_root()) return;
  log().warning(told);
}

void TrainingReport::thawed() const {
  if (!p_.run.job.is_root()) return;
  log().info("step " + std::to_string(p_.state.step) +
             ": the frozen groups train from here on (optimizer.freeze_until)");
}

void TrainingReport::nothing_found(const EpochRow& row) const {
  if (!p_.run.job.is_root()) return;
  log().warning("epoch " + std::to_string(row.epoch) +
                ": not one pixel of the validation part was predicted as foreground (a probability above 0.5); if that "
                "persists, classes may be rare (loss.pos_weight) or optimizer.learning_rate too high");
}

// Called after the first epoch of this start, which has read every sample of the training part.
void TrainingReport::tell_of_cache(const EpochRow& row) {
  const SharedPictures* cache = p_.built.kept.in_host_memory.get();
  if (cache == nullptr || std::exchange(told_of_cache_, true)) return;
  const auto samples = static_cast<int64_t>(p_.plan.split.train.size() + p_.plan.split.valid.size());
  const std::string sentence = "cache: " + with_commas(cache->kept()) + " of " + count_of(samples, "picture") + ", " +
                               fixed(cache->megabytes(), 1) + " MB of this host's memory after epoch " +
                               std::to_string(row.epoch);
  if (cache->full())
    log().warning(sentence + "; it is full, and the others are decoded in every epoch");
  else
    log().info("  " + sentence);
}

// For log.rank-N.txt, which each rank has with --log-all-ranks.
void TrainingReport::tell_own_times(const RankRow& own) const {
  std::string line = "epoch " + std::to_string(own.epoch) + " here:";
  for (const TimingField& field : kTimingFields)
    line += std::string("  ") + field.name + " " + fixed(own.timing.*field.seconds, 3);
  if (!std::isnan(own.step_ms_median))
    line += "  step " + fixed(own.step_ms_median, 1) + " ms, p95 " + fixed(own.step_ms_p95, 1) + " ms";
  line += "  memory " + fixed(own.memory_peak_mb, 0) + " MB";
  if (own.gpu_memory_peak_mb) line += ", on the GPU " + fixed(*own.gpu_memory_peak_mb, 0) + " MB";
  log().debug(line);
}

void TrainingReport::epoch(const EpochRow& row, bool best) {
  tell_own_times(rank_rows(row.epoch).at(static_cast<size_t>(p_.run.job.rank())));
  if (!p_.run.job.is_root()) return;
  const Experiment& e = p_.run.experiment;
  std::string line = "epoch " + std::to_string(row.epoch) + "/" + std::to_string(e.epochs) + "  train loss " +
                     short_number(row.train_loss, 4);
  if (row.valid_loss) line += "  valid loss " + short_number(*row.valid_loss, 4);
  line += shown_figures(e, row);
  line += "  " + fixed(row.timing.epoch_seconds + row.valid_seconds, 1) + " s  " +
          (row.images_per_s() < 100 ? fixed(row.images_per_s(), 1) : with_commas(std::llround(row.images_per_s()))) +
          " images/s";
  const auto share = [&](const char* name, double seconds) {
    line += std::string("  ") + name + " " + fixed(100 * seconds / std::max(1e-9, row.timing.epoch_seconds), 0) + " %";
  };
  share("compute", row.timing.compute_s);
  share("data-wait", row.timing.data_wait_s);
  share("all-reduce", row.timing.allreduce_s);
  share("imbalance", row.timing.imbalance_s);
  if (row.skipped_steps > 0) line += "  skipped " + count_of(row.skipped_steps, "step");
  if (row.replaced_samples > 0) line += "  replaced " + count_of(row.replaced_samples, "sample");
  if (best) line += "  best " + join(split_text(e.checkpoint.best_monitor, '.'), " ");
  log().info(line);
  tell_where_time_went();
  tell_of_cache(row);
}

// A sentence that differs from the last one only in its figures is not repeated.
void TrainingReport::tell_where_time_went() {
  const int64_t spare = std::max<int64_t>(0, p_.run.job.cores() - p_.run.experiment.distributed.threads);
  const std::string sentence = time_sentence(costs_.shares(p_.built.loader->threads(), spare));
  std::string words = sentence;
  std::erase_if(words, [](char c) { return c >= '0' && c <= '9'; });
  if (!words.empty() && words != told_of_time_) log().info("  " + sentence);
  told_of_time_ = words;
}

// Rank 0's environment variables that NCCL, CUDA's libraries and LibTorch read, so that none changes a run unnoticed.
static std::string gpu_environment() {
  std::vector<std::string> settings;
  for (char** variable = environ; *variable != nullptr; ++variable)
    for (const char* prefix : {"NCCL_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "TORCH_", "PYTORCH_"})
      if (std::string_view(*variable).starts_with(prefix)) settings.emplace_back(*variable);
  std::sort(settings.begin(), settings.end());
  return join(settings, " ");
}

RunFacts TrainingReport::facts(const std::string& result) const {
  RunFacts facts;
  const GradientReducer& reducer = p_.built.trainer->reducer();
  facts.command = p_.run.command.words;
  facts.ranks_table = table_;
  facts.versions = library_versions();
  facts.versions.merge(p_.run.job.device_facts());
  facts.texts = {{"started", p_.folder.started()},       {"fingerprint", p_.built.fingerprint},
                 {"split_sha256", p_.plan.split.sha256}, {"data_sha256", p_.plan.dataset.manifest_sha256},
                 {"weights", p_.built.weights_line},     {"precision", p_.run.config.values.at("precision").text}};
  if (!result.empty()) facts.texts["result_sha256"] = result;
  facts.counts = {{"ranks", p_.run.job.size()},
                  {"logical_ranks", p_.plan.logical_ranks},
                  {"steps", p_.state.step},
                  {"epochs", p_.state.epoch}};
  const BucketCost& bucket = reducer.cost();
  facts.counts["buckets"] = static_cast<long long>(reducer.bucket_count());
  facts.counts["check_every"] = p_.built.trainer->replica_check().every();
  facts.figures = {{"bucket_mb", bucket.bucket_mb}, {"check_s", p_.built.trainer->replica_check().seconds()}};
  if (bucket.latency_s > 0) {
    facts.figures["bucket_latency_us"] = bucket.latency_s * 1e6;
    facts.figures["bucket_gb_per_s"] = 1e-9 / bucket.seconds_per_byte;
  }
  if (p_.run.experiment.precision == Precision::fp16) facts.figures["loss_scale"] = p_.state.loss_scale.scale;
  facts.texts["transport"] = reducer.transport();
  if (!p_.run.job.device().place.is_cpu()) facts.texts["gpu_environment"] = gpu_environment();
  facts.rank_times = costs_.rank_times(p_.state.epoch);
  return facts;
}

void TrainingReport::write_run_json(const std::string& result) const {
  dtrain::write_run_json(p_.folder.file("run.json"), facts(result), p_.folder.files());
}

void TrainingReport::update_files() const {
  try {
    write_run_json("");
  } catch (const Error& error) {
    log().warning(std::string("run.json is not up to date: ") + error.what());
  }
  if (const std::string unwritten = p_.folder.log().flush(); !unwritten.empty())
    log().warning(unwritten + "; its lines wait in memory");
}

std::string TrainingReport::result() const {
  const std::string hash = p_.built.replica->sha256();
  write_run_json(hash);
  p_.folder.log().event("end", p_.state.step, p_.state.epoch, {{"result_sha256", hash}});
  if (!std::isnan(p_.state.best_value))
    log().info("best " + p_.run.experiment.checkpoint.best_monitor + " " + short_number(p_.state.best_value, 4) +
               " in epoch " + std::to_string(p_.state.best_epoch) + ": " + p_.folder.file("best.safetensors"));
  const double loss = p_.state.best_loss, of_frequencies = p_.state.best_frequencies_loss;
  int digits = 4;
  while (digits < 9 && short_number(loss, digits) == short_number(of_frequencies, digits)) ++digits;
  if (of_frequencies > 0 && loss > of_frequencies)
    log().warning("the validation loss of this best, " + short_number(loss, digits) + ", is above " +
                  short_number(of_frequencies, digits) +
                  ", the loss of predicting the class frequencies for every picture: do not trust its probabilities; "
                  "train more epochs if epochs.csv shows it falling, fewer if it was lower before, or set a lower "
                  "optimizer.learning_rate");
  log().info("result " + hash + "  (" + count_of(p_.state.step, "step") + ", " + clock_text(p_.state.elapsed_s) + ")");
  return hash;
}

}  // namespace dtrain
