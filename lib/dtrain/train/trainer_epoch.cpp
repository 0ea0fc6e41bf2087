#include <ATen/ATen.h>

#include "dtrain/base/error.hpp"
#include "dtrain/data/epoch_requests.hpp"
#include "dtrain/train/trainer.hpp"

// Where an epoch of the trainer begins and ends: its plan and its receipt.

namespace dtrain {

void Trainer::begin_epoch(const TrainingState& state) {
  plan_ = std::make_unique<EpochPlan>(static_cast<int64_t>(parts_.train.size()), options_.logical_ranks, options_.batch,
                                      options_.distribute, options_.seed, state.epoch);
  at_ = plan_->step_at(state.cursor);
  parts_.loader.start(epoch_requests(*plan_, parts_.train,
                                     {mine_, at_, state.epoch, options_.loader.on_bad_sample == BadSample::replace,
                                      options_.loader.pipeline == Pipeline::sequential}));
  replaced_.clear();
  before_ = {state.data_wait_s, state.allreduce_s, state.compute_s,
             state.update_s,    state.imbalance_s, state.bytes_read};
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
  finished.epoch_seconds = state.epoch_seconds;
  finished.data_wait_s = state.data_wait_s;
  finished.allreduce_s = state.allreduce_s;
  finished.compute_s = state.compute_s;
  finished.update_s = state.update_s;
  finished.imbalance_s = state.imbalance_s;
  finished.here = spent_;
  finished.loaded = parts_.loader.figures();
  finished.bytes_read = state.bytes_read;
  ++state.epoch;
  state.cursor = 0;
  state.without_loss = 0;
  state.loss_sum = 0;
  state.correct = state.skipped_steps = state.replaced_samples = 0;
  state.coverage_sum = 0;
  state.epoch_seconds = state.data_wait_s = state.allreduce_s = 0;
  state.compute_s = state.update_s = state.imbalance_s = 0;
  state.bytes_read = 0;
  return finished;
}

}  // namespace dtrain
