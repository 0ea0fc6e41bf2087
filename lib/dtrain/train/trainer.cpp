#include "dtrain/train/trainer.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/collectives.hpp"

namespace dtrain {

static std::vector<size_t> kernel_places(const Replica& replica, const Network& network) {
  const std::vector<std::string> kernels = kernel_names(network);
  std::vector<size_t> places;
  for (size_t i = 0; i < replica.parameter_names().size(); ++i)
    if (std::find(kernels.begin(), kernels.end(), replica.parameter_names()[i]) != kernels.end())
      places.push_back(replica.place_of(i));
  return places;
}

// One pass: the smallest and largest value of a flat tensor are finite only if all are.
static bool all_finite(const at::Tensor& flat) {
  if (flat.numel() == 0) return true;
  const auto [low, high] = at::aminmax(flat);
  return std::isfinite(low.item<float>()) && std::isfinite(high.item<float>());
}

// Name of the first parameter, in the network's order, whose part of `flat` is not finite; "BatchNorm's statistics"
// else.
static std::string first_bad(const Replica& replica, const at::Tensor& flat) {
  for (size_t i = 0; i < replica.parameter_names().size(); ++i)
    if (!replica.layout().view(flat, replica.place_of(i)).isfinite().all().item<bool>())
      return replica.parameter_names()[i];
  return "BatchNorm's statistics";
}

[[noreturn]] static void diverged(const std::string& what, int64_t step) {
  throw DivergedError(what + " in step " + std::to_string(step) +
                      "; lower optimizer.learning_rate or lengthen schedule.warmup, and start again from the newest "
                      "checkpoint");
}

Trainer::Trainer(const Parts& parts, const Options& options)
    : parts_(parts),
      options_(options),
      mine_(carried(parts.comm, options.logical_ranks)),
      kernels_(options.l2_kernels > 0 ? kernel_places(parts.replica, parts.replica.network()) : std::vector<size_t>{}),
      reducer_(parts.replica.parameters(), parts.replica.flat_buffers().numel(), parts.comm.duplicate(),
               options.logical_ranks, options.bucket_mb,
               [threads = static_cast<int>(options.threads)] { at::set_num_threads(threads); }) {
  parts_.replica.network().train();
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
  before_ = {state.data_wait_s, state.allreduce_s - reducer_.exposed_s() - agree_s_, state.bytes_read};
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

// Forward and backward of the logical ranks that this process carries. Rows: loss (its bits), correct, coverage, and a
// place for the request.
at::Tensor Trainer::run_passes(const CanonicalTree& tree, int64_t step) {
  Replica& replica = parts_.replica;
  // Every logical rank starts from the same BatchNorm statistics; their mean becomes the next step's.
  const at::Tensor buffers_before = replica.flat_buffers().clone();
  at::Tensor rows = at::zeros({mine_.size(), 4}, at::kLong);
  auto row = rows.accessor<int64_t, 2>();
  reducer_.begin_step(tree);
  for (int64_t v = mine_.begin; v < mine_.end; ++v) {
    if (!tree.present(v)) continue;
    {
      const at::NoGradGuard no_grad;
      replica.flat_buffers().copy_(buffers_before);
    }
    const Pass pass = run_pass(v, plan_->count(at_), step);
    row[v - mine_.begin][0] = std::bit_cast<int64_t>(pass.loss_sum);
    row[v - mine_.begin][1] = pass.correct;
    row[v - mine_.begin][2] = std::bit_cast<int64_t>(pass.coverage);
  }
  parts_.watchdog.enter(Section::reduce, step);
  reducer_.finish();
  return rows;
}

Trainer::Sums Trainer::agree(const CanonicalTree& tree, at::Tensor rows, StopRequest request, int64_t step) {
  rows.select(1, 3).fill_(static_cast<int64_t>(request));
  const Stopwatch waiting;
  const at::Tensor all = gather_logical_rows(parts_.comm, options_.logical_ranks, rows);
  agree_s_ += waiting.seconds();
  const at::Tensor losses = all.slice(1, 0, 1).contiguous().view(at::kDouble);
  Sums sums;
  sums.loss = canonical_row_sum(tree, losses)[0].item<double>();
  sums.correct = all.select(1, 1).sum().item<int64_t>();
  for (int64_t v = 0; v < options_.logical_ranks; ++v)
    sums.coverage += std::bit_cast<uint64_t>(all[v][2].item<int64_t>());
  sums.request = static_cast<StopRequest>(all.select(1, 3).max().item<int64_t>());
  if (!std::isfinite(sums.loss)) {
    const int64_t first = losses.isfinite().logical_not().nonzero()[0][0].item<int64_t>();
    diverged("the loss of logical rank " + std::to_string(first) + " is not finite", step);
  }
  return sums;
}

// All ranks hold the same sums, so all find the same values not finite.
void Trainer::update(const CanonicalTree& tree, double learning_rate, int64_t step) {
  const at::NoGradGuard no_grad;
  Replica& replica = parts_.replica;
  const at::Tensor gradients = reducer_.gradients();
  if (!all_finite(gradients) || !all_finite(reducer_.extra()))
    diverged("the gradient of " + first_bad(replica, gradients) + " is not finite", step);
  add_kernel_penalty(gradients);
  replica.optimizer().step(gradients, learning_rate);
  replica.flat_buffers().copy_(reducer_.extra().div(static_cast<double>(tree.present_count())));
  if (!all_finite(replica.flat_parameters()))
    diverged("after the update " + first_bad(replica, replica.flat_parameters()) + " is not finite", step);
}

StepReport Trainer::step(TrainingState& state, StopRequest request) {
  check(steps_left() > 0, "a step is left in the epoch");
  const Stopwatch stepping;
  const at::AutoGradMode with_grad(true);
  std::vector<bool> present;
  for (int64_t v = 0; v < options_.logical_ranks; ++v) present.push_back(plan_->count(at_, v) > 0);
  const CanonicalTree tree(present);
  const int64_t tracked = parts_.replica.steps_tracked();

  const at::Tensor rows = run_passes(tree, state.step);
  const Sums sums = agree(tree, rows, request, state.step);
  parts_.watchdog.enter(Section::update, state.step);
  const double learning_rate = parts_.schedule.rate(state.step);
  update(tree, learning_rate, state.step);
  parts_.replica.set_steps_tracked(tracked + 1);

  const StepReport report{sums.loss / static_cast<double>(plan_->count(at_)), learning_rate, sums.request};
  state.loss_sum += sums.loss;
  state.correct += sums.correct;
  state.coverage_sum += sums.coverage;
  ++state.step;
  state.cursor = plan_->cursor(++at_);
  state.optimizer_updates = parts_.replica.optimizer().updates();
  state.epoch_seconds += stepping.seconds();
  const Loader::Figures loaded = parts_.loader.figures();
  state.data_wait_s = before_.data_wait_s + loaded.wait_s;
  state.allreduce_s = before_.allreduce_s + reducer_.exposed_s() + agree_s_;
  state.bytes_read = before_.bytes_read + loaded.bytes_read;
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
  const Finished finished{state.loss_sum / static_cast<double>(state.cursor),
                          state.cursor,
                          state.correct,
                          plan_->steps(),
                          state.epoch_seconds,
                          state.data_wait_s,
                          state.allreduce_s,
                          parts_.loader.figures().queue_fill,
                          state.bytes_read};
  ++state.epoch;
  state.cursor = 0;
  state.loss_sum = 0;
  state.correct = 0;
  state.coverage_sum = 0;
  state.epoch_seconds = state.data_wait_s = state.allreduce_s = 0;
  state.bytes_read = 0;
  return finished;
}

}  // namespace dtrain
