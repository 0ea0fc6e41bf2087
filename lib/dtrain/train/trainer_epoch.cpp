#include <ATen/core/Tensor.h>

#include "dtrain/base/error.hpp"
#include "dtrain/data/batches/epoch_requests.hpp"
#include "dtrain/train/trainer.hpp"

// How the trainer begins and ends an epoch: its plan and its results.

namespace dtrain {

void Trainer::begin_epoch(const TrainingState& state) {
  epoch_ = {};
  epoch_.plan = std::make_unique<EpochPlan>(static_cast<int64_t>(parts_.train.size()), options_.logical_ranks,
                                            options_.batch, options_.distribute, options_.seed, state.epoch,
                                            sampled_groups(options_.sampling, parts_.dataset, parts_.train));
  epoch_.at = epoch_.plan->step_at(state.cursor);
  parts_.loader.start(epoch_requests(*epoch_.plan, parts_.train,
                                     {.logical_ranks = mine_,
                                      .first_step = epoch_.at,
                                      .epoch = state.epoch,
                                      .may_replace = options_.loader.on_bad_sample == BadSample::replace,
                                      .reads_everything = options_.loader.pipeline == Pipeline::sequential}));
  epoch_.before = state.timing;
}

Trainer::Finished Trainer::end_epoch(TrainingState& state) {
  uint64_t wanted = 0;
  for (int64_t step = 0; step < epoch_.plan->steps(); ++step)
    for (int64_t v = 0; v < options_.logical_ranks; ++v)
      for (int64_t place : epoch_.plan->places(step, v))
        wanted += parts_.dataset.samples[static_cast<size_t>(parts_.train[static_cast<size_t>(place)])].id;
  check(epoch_.at == epoch_.plan->steps() && state.coverage_sum == wanted,
        "epoch " + std::to_string(state.epoch + 1) +
            " saw every sample as often as its plan says, or another in its place (coverage receipt)");
  Finished finished;
  finished.train_loss = state.mean_loss();
  finished.samples = state.cursor;
  finished.correct = state.correct;
  finished.steps = epoch_.plan->steps();
  finished.skipped_steps = state.skipped_steps;
  finished.replaced_samples = state.replaced_samples;
  finished.timing = state.timing;
  finished.here = epoch_.spent;
  finished.loaded = parts_.loader.figures();
  ++state.epoch;
  state.cursor = 0;
  state.without_loss = 0;
  state.loss_sum = 0;
  state.correct = state.skipped_steps = state.replaced_samples = 0;
  state.coverage_sum = 0;
  state.timing = {};
  return finished;
}

}  // namespace dtrain
