// How a training run begins: from its data and a checkpoint to parts that can take a step.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <limits>

#include "agreement.hpp"
#include "cache_plan.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/launch.hpp"
#include "dtrain/io/own_output.hpp"
#include "training_run.hpp"

namespace dtrain {

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
  read_data();
  if (resume_.finished && !command.dry_run) {
    require_same_finished_run(command, config, state_, resume_.state, folder_.path());
    return;
  }
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

// The plan, and the state in which a run of it begins: by it a run that was found is known to be the same.
void TrainingRun::read_data() {
  require_ranks_fit(job_.size(), resume_.logical_ranks);
  plan_ = make_plan(e_, resume_.logical_ranks);
  state_.logical_ranks = plan_.logical_ranks;
  state_.split_sha256 = plan_.split.sha256;
  state_.manifest_sha256 = plan_.dataset.manifest_sha256;
  state_.trained_on = training_digits(plan_.dataset, plan_.split);
  state_.classes = plan_.outputs;
  state_.config = fingerprint_values(config_);
  state_.versions = library_versions();
}

void TrainingRun::build() {
  const int64_t v = plan_.logical_ranks;
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
  trained_labels_ = training_labels(e_, plan_);
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
                       MixOptions{e_.data.augment.mixup, e_.data.augment.cutmix}, e_.data.loader,
                       loss_->of_frequencies(trained_labels_, trained_labels_)},
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
  const CachePlan cache = plan_cache(e_, plan_, first_kind(e_, plan_), job_.size(), job_.rank(),
                                     resume_.finished ? e_.epochs : e_.epochs - resume_.state.epoch);
  const double free_mb = memory_for_cache(job_.device(), sharers);
  require_cache_fits(e_, cache, job_.device(), free_mb);
  cache_line_ = "cache  " + cache_text(e_, cache) + " in each process, which can have " +
                with_commas(static_cast<int64_t>(free_mb)) + " MB";
}

// A dry run takes a step whatever the folder holds: the next one of the run there, or the first of this configuration
// where that run is another one, which it then tells, or has none left.
bool TrainingRun::rehearses_afresh() {
  try {
    if (resume_.finished) {
      require_same_finished_run(command_, config_, state_, resume_.state, folder_.path());
    } else {
      require_same_run(command_, config_, state_, resume_.state, resume_.path);
      require_step_boundary(e_, plan_, resume_.state, resume_.path);
    }
  } catch (const ConfigError& refusal) {
    refusal_ = refusal.what();
    return true;
  }
  return !step_is_left(e_, plan_, resume_.state);
}

void TrainingRun::restore() {
  if (!resume_.resumed) return;
  if (command_.dry_run && rehearses_afresh()) {
    resume_.resumed = false;
    return;
  }
  const TrainingState now = state_;
  require_same_run(command_, config_, now, resume_.state, resume_.path);
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
  state_.best_value = state_.best_loss = state_.best_frequencies_loss = std::numeric_limits<double>::quiet_NaN();
  state_.best_epoch = 0;
}

}  // namespace dtrain
