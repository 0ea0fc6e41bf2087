#include "train/training_parts.hpp"

#include <algorithm>

#include "dtrain/base/host.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/dist/collectives.hpp"
#include "job/agreement.hpp"
#include "job/cache_plan.hpp"
#include "job/epoch_columns.hpp"
#include "job/fingerprint.hpp"
#include "job/planned_parts.hpp"
#include "train/ram_cache.hpp"

namespace dtrain {

// Makes the caches of data.loader.cache. All ranks call it together.
static KeptPictures keep_pictures(const RunContext& run, const Plan& plan, int64_t epochs_left) {
  const Experiment& e = run.experiment;
  Job& job = run.job;
  KeptPictures kept;
  if (e.data.loader.cache == PictureKeep::none) return kept;
  if (e.data.loader.cache == PictureKeep::ram) {
    RamCache cache = make_ram_cache(e, plan, job);
    if (job.is_root() && !cache.note.empty()) job.log().warning(cache.note);
    kept.in_host_memory = std::move(cache.pictures);
    kept.line = cache.line;
    return kept;
  }
  kept.on_device = std::make_unique<PictureCache>(static_cast<int64_t>(plan.dataset.samples.size()));
  const std::vector<std::string> hosts = all_gather_text(job.comm(), host_name());
  const bool own_gpu = !job.device().place.is_cpu() && !e.distributed.share_device;
  const auto sharers = own_gpu ? 1 : std::count(hosts.begin(), hosts.end(), host_name());
  const CachePlan cache = plan_cache(e, plan, first_kind(e, plan), job.size(), job.rank(), epochs_left);
  const double free_mb = memory_for_cache(job.device(), sharers);
  require_cache_fits(e, cache, job.device(), free_mb);
  kept.line = "cache  " + cache_text(e, cache) + " in each process, which can have " +
              with_commas(static_cast<int64_t>(free_mb)) + " MB";
  return kept;
}

TrainingParts::TrainingParts(const RunContext& run, const Plan& plan, int64_t epochs_left, Trace& trace) {
  const Experiment& e = run.experiment;
  Job& job = run.job;
  require_partners(e, plan);
  require_monitors(e, plan);
  require_foreground(e, plan);
  const std::string weights = weights_sha256(e);
  fingerprint = dtrain::fingerprint(run.config, plan, weights, job);
  replica = std::make_unique<Replica>(make_planned_network(e, plan, job.is_root(), weights_line),
                                      memory_format_for(*e.model.kind, job.device().place.type()), e.optimizer,
                                      job.device(), e.precision);
  if (e.ema.decay > 0) replica->keep_average(e.ema);
  require_agreement(job, facts_of_plan(plan, replica->network(), weights));
  replica->broadcast_from(job.comm(), 0);
  loss = std::make_unique<Loss>(make_planned_loss(e, plan, job.device().place));
  trained_labels = training_labels(e, plan);
  steps_per_epoch = planned_epoch(e, plan, 0).steps();
  schedule =
      std::make_unique<Schedule>(e.schedule, e.optimizer.learning_rate, plan.logical_ranks, steps_per_epoch, e.epochs);
  kept = keep_pictures(run, plan, epochs_left);
  loader = make_planned_loader(e, plan, *replica, trace, job.cores(),
                               {.device = kept.on_device.get(), .shared = kept.in_host_memory.get()});
  batches = std::make_unique<DeviceBatches>(*loader, job.device(), kept.on_device.get());
  Trainer::Options options = planned_trainer_options(e, plan.logical_ranks);
  options.frequencies_loss = loss->of_frequencies(trained_labels, trained_labels);
  trainer = make_planned_trainer(
      options, plan, job,
      {.replica = *replica, .loss = *loss, .schedule = *schedule, .batches = *batches, .trace = trace});
}

}  // namespace dtrain
