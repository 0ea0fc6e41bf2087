#include <ATen/ATen.h>

#include "dtrain/base/error.hpp"
#include "dtrain/data/batches/epoch_requests.hpp"
#include "dtrain/train/trainer.hpp"

// Where an epoch of the trainer begins and ends: its plan and its receipt.

namespace dtrain {

void Trainer::begin_epoch(const TrainingState& state) {
  plan_ = std::make_unique<EpochPlan>(static_cast<int64_t>(parts_.train.size()), options_.logical_ranks, options_.batch,
                                      options_.distribute, options_.seed, state.epoch);
  at_ = plan_->step_at(state.cursor);
  parts_.loader.start(epoch_requests(*plan_, parts_.train,
                                     {.logical_ranks = mine_,
                                      .first_step = at_,
                                      .epoch = state.epoch,
                                      .may_replace = options_.loader.on_bad_sample == BadSample::replace,
                                      .reads_everything = options_.loader.pipeline == Pipeline::sequential}));
  replaced_.clear();
  before_ = state.timing;
  spent_ = {};
}

Trainer::Finished Trainer::end_epoch(TrainingState& state) {
  uint64_t wanted = 0;
  for (int64_t step = 0; step < plan_->steps(); ++step)
    for (int64_t v = 0; v < options_.logical_ranks; ++v)
      for (int64_t place : plan_->places(step, v))
        wanted += parts_.dataset.samples[static_cast<size_t>(parts_.train[static_cast<size_t>(place)])].id;
  check(at_ == plan_->steps() && state.coverage_sum == wanted,
        "epoch " + std::to_string(state.epoch + 1) +
            " saw every sample of its plan exactly once, or another in its place (coverage receipt)");
  Finished finished;
  finished.train_loss = state.mean_loss();
  finished.samples = state.cursor;
  finished.correct = state.correct;
  finished.steps = plan_->steps();
  finished.skipped_steps = state.skipped_steps;
  finished.replaced_samples = state.replaced_samples;
  finished.timing = state.timing;
  finished.here = spent_;
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
