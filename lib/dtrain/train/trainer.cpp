#include "dtrain/train/trainer.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/collectives.hpp"

namespace dtrain {

static std::vector<size_t> kernel_places(const Replica& replica) {
  std::vector<size_t> places;
  for (size_t i = 0; i < replica.parameters().size(); ++i)
    if (replica.parameters()[i].dim() == 4) places.push_back(replica.parameters().size() - 1 - i);
  return places;
}

Trainer::Trainer(const Parts& parts, const Options& options)
    : parts_(parts),
      options_(options),
      mine_(carried(parts.comm, options.logical_ranks)),
      kernels_(options.l2_kernels > 0 ? kernel_places(parts.replica) : std::vector<size_t>{}),
      reducer_(parts.replica.parameters(), parts.replica.flat_buffers().numel(), parts.comm.duplicate(),
               options.logical_ranks, options.bucket_mb,
               [threads = static_cast<int>(options.threads)] { at::set_num_threads(threads); }) {
  parts_.replica.network().train();
}

int64_t Trainer::steps_per_epoch() const {
  return EpochPlan(static_cast<int64_t>(parts_.train.size()), options_.logical_ranks, options_.batch,
                   options_.distribute, options_.seed, 0)
      .steps();
}

int64_t Trainer::steps_left() const { return plan_->steps() - at_; }

void Trainer::begin_epoch(const TrainingState& state) {
  plan_ = std::make_unique<EpochPlan>(static_cast<int64_t>(parts_.train.size()), options_.logical_ranks, options_.batch,
                                      options_.distribute, options_.seed, state.epoch);
  at_ = plan_->step_at(state.cursor);
  std::vector<BatchRequest> requests;
  for (int64_t step = at_; step < plan_->steps(); ++step)
    for (int64_t v = mine_.begin; v < mine_.end; ++v) {
      if (plan_->count(step, v) == 0) continue;
      requests.push_back({{}, state.epoch});
      for (int64_t place : plan_->places(step, v))
        requests.back().samples.push_back(parts_.train[static_cast<size_t>(place)]);
    }
  parts_.loader.start(std::move(requests));
  exposed_before_ = reducer_.exposed_s();
  status_wait_s_ = 0;
  since_step_.restart();
}

Trainer::Pass Trainer::run_pass(int64_t logical_rank, int64_t global_count, int64_t step) {
  Replica& replica = parts_.replica;
  parts_.watchdog.enter(Section::load, step);
  const auto batch = parts_.loader.next();
  check(batch.has_value(), "the loader has a batch for every pass of the plan");
  parts_.watchdog.enter(Section::compute, step);
  const at::Tensor targets = batch->targets.to(replica.device());
  replica.network().set_random_key(options_.seed, step, logical_rank);
  reducer_.begin_leaf(logical_rank);
  const at::Tensor logits = replica.network().forward(batch->images.to(replica.device()));
  const at::Tensor losses = parts_.loss.per_sample(logits, targets);
  losses.sum().div(static_cast<double>(global_count)).backward();
  reducer_.end_leaf(replica.flat_buffers());
  Pass pass;
  pass.loss_sum = losses.detach().sum(at::kDouble).item<double>();
  if (options_.task == Task::multiclass) pass.correct = logits.detach().argmax(1).eq(targets).sum().item<int64_t>();
  for (int64_t sample : batch->samples) pass.coverage += parts_.dataset.samples[static_cast<size_t>(sample)].id;
  return pass;
}

// λ·Σw² over convolution kernels adds 2λ·w to their gradients.
void Trainer::add_kernel_penalty(const at::Tensor& gradients) {
  for (size_t place : kernels_)
    reducer_.layout()
        .view(gradients, place)
        .add_(reducer_.layout().view(parts_.replica.flat_parameters(), place), 2 * options_.l2_kernels);
}

StepReport Trainer::step(TrainingState& state, StopRequest request) {
  const at::AutoGradMode with_grad(true);
  Replica& replica = parts_.replica;
  std::vector<bool> present;
  for (int64_t v = 0; v < options_.logical_ranks; ++v) present.push_back(plan_->count(at_, v) > 0);
  const CanonicalTree tree(present);
  const int64_t count = plan_->count(at_);

  // Every logical rank starts from the same BatchNorm statistics; their mean becomes the next step's.
  const at::Tensor buffers_before = replica.flat_buffers().clone();
  const int64_t tracked = replica.steps_tracked();
  at::Tensor rows = at::zeros({mine_.size(), 4}, at::kLong);  // loss (its bits), correct, coverage, request
  rows.select(1, 3).fill_(static_cast<int64_t>(request));
  auto row = rows.accessor<int64_t, 2>();
  reducer_.begin_step(tree);
  for (int64_t v = mine_.begin; v < mine_.end; ++v) {
    if (!tree.present(v)) continue;
    {
      const at::NoGradGuard no_grad;
      replica.flat_buffers().copy_(buffers_before);
    }
    const Pass pass = run_pass(v, count, state.step);
    row[v - mine_.begin][0] = std::bit_cast<int64_t>(pass.loss_sum);
    row[v - mine_.begin][1] = pass.correct;
    row[v - mine_.begin][2] = std::bit_cast<int64_t>(pass.coverage);
  }
  parts_.watchdog.enter(Section::reduce, state.step);
  reducer_.finish();
  const Stopwatch waiting;
  const at::Tensor all = gather_logical_rows(parts_.comm, options_.logical_ranks, rows);
  status_wait_s_ += waiting.seconds();

  StepReport report;
  const at::Tensor loss_rows = all.slice(1, 0, 1).contiguous().view(at::kDouble);
  const double loss_sum = canonical_row_sum(tree, loss_rows)[0].item<double>();
  report.loss = loss_sum / static_cast<double>(count);
  report.request = static_cast<StopRequest>(all.select(1, 3).max().item<int64_t>());
  if (!std::isfinite(loss_sum)) {
    const int64_t first = loss_rows.isfinite().logical_not().nonzero()[0][0].item<int64_t>();
    throw DivergedError(
        "the loss is " + std::string(std::isnan(loss_sum) ? "not a number" : "infinite") + " in step " +
        std::to_string(state.step) + ", first in logical rank " + std::to_string(first) +
        "; lower optimizer.learning_rate or lengthen schedule.warmup and start again from the newest checkpoint");
  }

  parts_.watchdog.enter(Section::update, state.step);
  const at::NoGradGuard no_grad;
  report.learning_rate = parts_.schedule.rate(state.step);
  add_kernel_penalty(reducer_.gradients());
  replica.optimizer().step(reducer_.gradients(), report.learning_rate);
  replica.flat_buffers().copy_(reducer_.extra().div(static_cast<double>(tree.present_count())));
  replica.set_steps_tracked(tracked + 1);

  state.loss_sum += loss_sum;
  state.correct += all.select(1, 1).sum().item<int64_t>();
  for (int64_t v = 0; v < options_.logical_ranks; ++v)
    state.coverage_sum += std::bit_cast<uint64_t>(all[v][2].item<int64_t>());
  ++state.step;
  state.cursor = plan_->cursor(++at_);
  state.optimizer_updates = replica.optimizer().updates();
  state.epoch_seconds += since_step_.seconds();
  state.elapsed_s += since_step_.seconds();
  since_step_.restart();
  return report;
}

Trainer::Finished Trainer::end_epoch(TrainingState& state) {
  uint64_t wanted = 0;
  for (int64_t step = 0; step < plan_->steps(); ++step)
    for (int64_t v = 0; v < options_.logical_ranks; ++v)
      for (int64_t place : plan_->places(step, v))
        wanted += parts_.dataset.samples[static_cast<size_t>(parts_.train[static_cast<size_t>(place)])].id;
  check(at_ == plan_->steps() && state.coverage_sum == wanted,
        "epoch " + std::to_string(state.epoch + 1) + " saw every sample of its plan exactly once (coverage receipt)");
  const Loader::Figures loaded = parts_.loader.figures();
  Finished finished;
  finished.samples = state.cursor;
  finished.train_loss = state.loss_sum / static_cast<double>(state.cursor);
  finished.correct = state.correct;
  finished.steps = plan_->steps();
  finished.epoch_seconds = state.epoch_seconds;
  finished.times = {loaded.wait_s, reducer_.exposed_s() - exposed_before_ + status_wait_s_, loaded.queue_fill,
                    loaded.bytes_read};
  ++state.epoch;
  state.cursor = 0;
  state.loss_sum = 0;
  state.correct = 0;
  state.coverage_sum = 0;
  state.epoch_seconds = 0;
  return finished;
}

}  // namespace dtrain
