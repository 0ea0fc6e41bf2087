#include "dtrain/train/trainer.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "dtrain/base/error.hpp"
#include "dtrain/base/short_number.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/train/replaced_samples.hpp"

namespace dtrain {

// What logical ranks exchange after a step, one row each; doubles as their bits.
enum Column { kLoss, kCorrect, kCoverage, kReplaced, kRequest, kBufferHash, kWeightHash, kWaited, kColumns };

// Indices of the convolution kernels among the replica's parameters.
static std::vector<size_t> kernel_parameters(const Replica& replica, const Network& network) {
  const std::vector<std::string> kernels = kernel_names(network);
  std::vector<size_t> found;
  for (size_t i = 0; i < replica.parameter_names().size(); ++i)
    if (std::find(kernels.begin(), kernels.end(), replica.parameter_names()[i]) != kernels.end()) found.push_back(i);
  return found;
}

// The name of the first parameter, in the network's order, whose part of `flat` is not finite; "" if there is none.
static std::string first_bad(const Replica& replica, const at::Tensor& flat) {
  for (size_t i = 0; i < replica.parameter_names().size(); ++i)
    if (!replica.is_frozen(i) && !replica.layout().view(flat, replica.place_of(i)).isfinite().all().item<bool>())
      return replica.parameter_names()[i];
  return "";
}

constexpr const char* kTheThreeKeys =
    "; lower optimizer.learning_rate, lengthen schedule.warmup or set optimizer.clip_norm";

[[noreturn]] static void diverged(const std::string& what, int64_t step) {
  throw DivergedError(what + " in step " + std::to_string(step) + kTheThreeKeys);
}

static GradientReducer::Options reducer_options(const Device& device, int64_t logical_ranks,
                                                const DistributedOptions& distributed, Watchdog& watchdog) {
  return {.device = device,
          .logical_ranks = logical_ranks,
          .reduction = distributed.reduction,
          .bucket_mb = distributed.bucket_mb,
          .on_thread_start = [threads = static_cast<int>(distributed.threads)] { at::set_num_threads(threads); },
          .on_sum = [&watchdog] { watchdog.begin_sum(); }};
}

// The number 1 as a tensor: [], float32.
static at::Tensor one_on(const Device& device) {
  return at::ones({}, at::TensorOptions(at::kFloat).device(device.place));
}

Trainer::Trainer(const Parts& parts, const Options& options, std::unique_ptr<Communicator> gradient_comm)
    : parts_(parts),
      options_(options),
      mine_(carried(parts.comm, options.logical_ranks)),
      kernels_(options.l2_kernels > 0 ? kernel_parameters(parts.replica, parts.replica.network())
                                      : std::vector<size_t>{}),
      reducer_(parts.replica.trained_parameters(), parts.replica.moving_buffers().numel(), std::move(gradient_comm),
               reducer_options(parts.replica.device(), options.logical_ranks, options.distributed, parts.watchdog),
               parts.trace),
      check_(parts.replica, parts.comm, options.distributed.check_every),
      loss_factors_{.divisor = one_on(parts.replica.device()), .mix_share = one_on(parts.replica.device())} {
  parts_.replica.network().train();
}

int64_t Trainer::steps_left() const { return epoch_.plan->steps() - epoch_.at; }

// Forward and backward pass of this process's logical ranks; at the same time the reducer sums buckets over all ranks
// and, unless updates_at_once(), updates each of them. Returns a row for each of this process's logical ranks, with
// zero in the column that agree() fills.
at::Tensor Trainer::run_passes(const CanonicalTree& tree, int64_t step) {
  Replica& replica = parts_.replica;
  // Every logical rank starts from the same BatchNorm statistics; their mean becomes the next step's.
  buffers_before_ = replica.moving_buffers().clone();
  const double waited = options_.adds_up_first ? add_up_batch(tree, step) : 0;
  at::Tensor rows = at::zeros({mine_.size(), kColumns}, at::kLong);
  reducer_.begin_step(
      tree, updates_at_once() ? GradientReducer::OnSummed{} : [this](Range range) { update_bucket(range); });
  for (int64_t v = mine_.begin; v < mine_.end; ++v) {
    if (!tree.present(v)) continue;
    {
      const at::NoGradGuard no_grad;
      replica.moving_buffers().copy_(buffers_before_);
    }
    reducer_.begin_leaf(v);
    const auto micro_batches = static_cast<int64_t>(epoch_.plan->micro_batches(epoch_.at, v).size());
    for (int64_t micro = 0; micro < micro_batches; ++micro) {
      epoch_.issued.push_back(run_micro_batch(v, step, micro, micro + 1 == micro_batches));
      if (epoch_.issued.size() > 1) settle_pass(rows);  // a GPU has the next one to work on meanwhile
    }
    reducer_.end_leaf(replica.moving_buffers());
  }
  const ReplicaCheck::Hashes hashes = check_.take();  // a GPU still has the last pass to work on
  rows.select(1, kBufferHash).fill_(std::bit_cast<int64_t>(hashes.buffers));
  rows.select(1, kWeightHash).fill_(std::bit_cast<int64_t>(hashes.weights));
  while (!epoch_.issued.empty()) settle_pass(rows);
  parts_.watchdog.enter(Section::reduce, step);
  const double exposed_before = reducer_.exposed_s();
  const double update_before = reducer_.exposed_update_s();
  {
    const auto span = parts_.trace.span("wait for sums", step);
    reducer_.finish();
  }
  epoch_.spent.update_s += reducer_.exposed_update_s() - update_before;
  rows.select(1, kWaited).fill_(std::bit_cast<int64_t>(waited + reducer_.exposed_s() - exposed_before));
  return rows;
}

// Waits for the pass that was issued first, and adds what it has found to the row of its logical rank.
void Trainer::settle_pass(const at::Tensor& rows) {
  const Pass pass = std::move(epoch_.issued.front());
  epoch_.issued.pop_front();
  const Stopwatch computing;
  const auto found = pass.figures.wait().accessor<double, 1>();
  epoch_.spent.compute_s += computing.seconds();
  auto row = rows.accessor<int64_t, 2>()[pass.logical_rank - mine_.begin];
  row[kLoss] = std::bit_cast<int64_t>(std::bit_cast<double>(row[kLoss]) + found[0]);
  row[kCorrect] += static_cast<int64_t>(found[1]);
  row[kCoverage] = std::bit_cast<int64_t>(std::bit_cast<uint64_t>(row[kCoverage]) + pass.coverage);
  row[kReplaced] += pass.replaced;
}

Trainer::Sums Trainer::agree(const CanonicalTree& tree, at::Tensor rows, StopRequest request, int64_t step) {
  rows.select(1, kRequest).fill_(static_cast<int64_t>(request));
  const auto span = parts_.trace.span("agree", step);
  const Stopwatch waiting;
  const at::Tensor all = gather_logical_rows(parts_.comm, options_.logical_ranks, rows);
  const double agree_s = waiting.seconds();
  const auto value = all.accessor<int64_t, 2>();
  std::vector<ReplicaCheck::Hashes> of_ranks;
  double least = 1e300;
  double sum_of_waits = 0;
  for (int rank = 0; rank < parts_.comm.size(); ++rank) {
    const int64_t v = part_of(options_.logical_ranks, parts_.comm.size(), rank).begin;
    of_ranks.push_back(
        {std::bit_cast<uint64_t>(value[v][kBufferHash]), std::bit_cast<uint64_t>(value[v][kWeightHash])});
    least = std::min(least, std::bit_cast<double>(value[v][kWaited]));
    sum_of_waits += std::bit_cast<double>(value[v][kWaited]);
  }
  check_.compare(of_ranks, step);
  // The rank that came last waits only for the sum itself.
  epoch_.spent.allreduce_s += least + agree_s;
  epoch_.spent.imbalance_s += sum_of_waits / static_cast<double>(parts_.comm.size()) - least;
  Sums sums;
  const at::Tensor losses = all.slice(1, kLoss, kLoss + 1).contiguous().view(at::kDouble);
  sums.loss = canonical_row_sum(tree, losses)[0].item<double>();
  for (int64_t v = 0; v < options_.logical_ranks; ++v) {
    sums.correct += value[v][kCorrect];
    sums.coverage += std::bit_cast<uint64_t>(value[v][kCoverage]);
    sums.replaced += value[v][kReplaced];
    sums.request = std::max(sums.request, static_cast<StopRequest>(value[v][kRequest]));
  }
  if (!std::isfinite(sums.loss)) {
    const int64_t first =
        loss_factors_.spoilt_by.value_or(losses.isfinite().logical_not().nonzero()[0][0].item<int64_t>());
    sums.not_finite =
        "the loss of logical rank " + std::to_string(first) + " is not finite (" + some_samples(first) + ")";
    if (!options_.skip_not_finite) diverged(sums.not_finite, step);
  }
  return sums;
}

// The first files of a logical rank's samples in this step.
std::string Trainer::some_samples(int64_t logical_rank) const {
  constexpr size_t kMost = 4;
  const std::vector<int64_t> places = epoch_.plan->places(epoch_.at, logical_rank);
  std::vector<std::string> names;
  for (const int64_t place : places) {
    const Sample& sample = parts_.dataset.samples[static_cast<size_t>(parts_.train[static_cast<size_t>(place)])];
    names.push_back(sample.path.empty() ? "sample " + std::to_string(place) : sample.path);
    if (names.size() == kMost) break;
  }
  const size_t more = places.size() - names.size();
  return join(names, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

// The loss is a mean over the step's samples. With fp16 backward sees a scaled mean over one logical rank's batch
// instead: the gradients inside the network, which must fit float16, are then the same whatever V is, and the rest of
// the division is done in the update, in float32.
void Trainer::divide_loss() {
  const auto count = static_cast<double>(epoch_.plan->count(epoch_.at));
  const auto local_batch = static_cast<double>(largest_batch(options_.batch, options_.logical_ranks));
  const double divisor = scales_loss() ? local_batch / parts_.replica.loss_scale().scale : count;
  loss_factors_.gradients = divisor / count;
  loss_factors_.divisor.fill_(divisor);
}

// λ·Σw² over convolution kernels adds 2λ·w to their gradients, which are still to be multiplied by their loss factor.
void Trainer::add_kernel_penalty(Range range) {
  const at::NoGradGuard no_grad;
  const Replica& replica = parts_.replica;
  for (size_t kernel : kernels_) {
    if (replica.is_frozen(kernel)) continue;
    const size_t place = replica.place_of(kernel);
    if (const Range at = replica.layout().range(place); at.begin < range.begin || at.end > range.end) continue;
    replica.layout()
        .view(reducer_.gradients(), place)
        .add_(replica.layout().view(replica.flat_parameters(), place),
              2 * options_.l2_kernels / loss_factors_.gradients);
  }
}

// Called on the reducer's thread when a bucket's sums are complete.
void Trainer::update_bucket(Range range) {
  const auto span = parts_.trace.span("update");
  add_kernel_penalty(range);
  parts_.replica.optimizer().update(range, reducer_.gradients());
}

// The norm over all parameters: squares are added up in a fixed order, within a tensor and over the tensors.
double Trainer::gradient_norm() const {
  const Replica& replica = parts_.replica;
  std::vector<Range> ranges;
  for (size_t i = 0; i < replica.parameters().size(); ++i)
    if (!replica.is_frozen(i)) ranges.push_back(replica.layout().range(replica.place_of(i)));
  double sum = 0;
  for (const double part : replica.device().math->sums_of_squares(reducer_.gradients().const_data_ptr<float>(), ranges))
    sum += part;
  return std::sqrt(sum);
}

bool Trainer::largest_gradient_is_finite() const {
  return std::isfinite(
      at::linalg_vector_norm(reducer_.gradients(), std::numeric_limits<double>::infinity()).item<double>());
}

// Returns false if a gradient has overflowed and the step must be skipped. Only the sums decide, which are equal on all
// ranks and for any number of processes, never one rank's own gradients.
bool Trainer::move_loss_scale(int64_t step) {
  LossScale& loss_scale = parts_.replica.loss_scale();
  if (largest_gradient_is_finite()) {
    loss_scale.good_step();
    return true;
  }
  if (!loss_scale.overflow()) require_finite(step);
  return false;
}

void Trainer::update_at_once(double learning_rate) {
  const Range all{0, parts_.replica.trained_numel()};
  add_kernel_penalty(all);
  double scale = loss_factors_.gradients;
  if (options_.clip_norm > 0) {
    const double norm = loss_factors_.gradients * gradient_norm();
    if (norm > options_.clip_norm) scale *= options_.clip_norm / norm;
  }
  Optimizer& optimizer = parts_.replica.optimizer();
  optimizer.begin_update(learning_rate);
  optimizer.update(all, reducer_.gradients(), static_cast<float>(scale));
}

// BatchNorm's statistics come from the forward pass, so they are also kept after a skipped update, unless that pass
// made them not finite.
void Trainer::keep_finite_buffers(const at::Tensor& buffers, bool skipped) {
  const bool spoilt = skipped && options_.skip_not_finite && !buffers.isfinite().all().item<bool>();
  parts_.replica.moving_buffers().copy_(spoilt ? buffers_before_ : buffers);
}

// Returns false if the update was skipped. `not_finite`: a sentence if the loss is not finite, else ""; set here for a
// gradient that is not.
bool Trainer::finish_update(const CanonicalTree& tree, double learning_rate, int64_t step, std::string& not_finite) {
  const at::NoGradGuard no_grad;
  Replica& replica = parts_.replica;
  bool skipped = !not_finite.empty() || (scales_loss() && !move_loss_scale(step));
  if (!skipped && options_.skip_not_finite && !largest_gradient_is_finite()) {
    not_finite = "the gradient of " + first_bad(replica, reducer_.gradients()) + " is not finite";
    skipped = true;
  }
  not_finite_ = not_finite.empty() ? 0 : not_finite_ + 1;
  if (not_finite_ == kMostNotFinite)
    diverged("the " + std::to_string(not_finite_) + "th step in a row was skipped, because " + not_finite, step);
  if (updates_at_once() && !skipped) update_at_once(learning_rate);
  keep_finite_buffers(reducer_.extra().div(static_cast<double>(tree.present_count())), skipped);
  const at::Tensor all_finite =
      replica.flat_buffers().isfinite().all().logical_and(replica.optimizer().not_finite().eq(0));
  if (!all_finite.item<bool>()) require_finite(step);
  return !skipped;
}

// Reports the value that is not finite. All ranks hold the same sums, so all report the same one.
void Trainer::require_finite(int64_t step) {
  const Replica& replica = parts_.replica;
  const std::string gradient = first_bad(replica, reducer_.gradients());
  if (!gradient.empty()) diverged("the gradient of " + gradient + " is not finite", step);
  const std::string weight = first_bad(replica, replica.flat_parameters());
  diverged("after the update " + (weight.empty() ? "BatchNorm's statistics are" : weight + " is") + " not finite",
           step);
}

// Called for each step whose loss is finite, with the same loss on all ranks. Above the bound it throws whatever on_nan
// is set to, since no single step could be skipped.
void Trainer::watch_loss(TrainingState& state, double loss) const {
  LossWatch& watch = state.loss_watch;
  const int64_t waiting = watch.steps + 1;
  const std::optional<double> mean = watch.note(loss, options_.frequencies_loss, epoch_.plan->steps());
  if (!mean) return;
  throw DivergedError("by step " + std::to_string(state.step + 1) + " the loss has run away: its mean over " +
                      count_of(waiting, "step") + " is " + short_number(*mean, 4) + ", above " +
                      with_commas(static_cast<int64_t>(LossWatch::kFactor)) + " times both the first step's " +
                      short_number(watch.first, 4) + " and " + short_number(options_.frequencies_loss, 4) +
                      " of predicting the class frequencies" + kTheThreeKeys);
}

// The tree over the logical ranks that take part in this step.
CanonicalTree Trainer::tree_of_step() const {
  std::vector<bool> present;
  for (int64_t v = 0; v < options_.logical_ranks; ++v) present.push_back(epoch_.plan->count(epoch_.at, v) > 0);
  return CanonicalTree(present);
}

StepReport Trainer::step(TrainingState& state, StopRequest request) {
  check(steps_left() > 0, "a step is left in the epoch");
  if (thaws_now(state)) {
    state.thawed_at = parts_.replica.optimizer().updates();
    thaw(state.thawed_at);
  }
  const Stopwatch stepping;
  const auto span = parts_.trace.span("step", state.step);
  const at::AutoGradMode with_grad(true);
  const CanonicalTree tree = tree_of_step();
  const int64_t tracked = parts_.replica.steps_tracked();
  StepReport report;
  report.learning_rate = parts_.schedule.rate(state.step);
  if (scales_loss()) report.loss_scale = parts_.replica.loss_scale().scale;
  divide_loss();

  check_.look();
  if (!updates_at_once()) parts_.replica.optimizer().begin_update(report.learning_rate);
  const at::Tensor rows = run_passes(tree, state.step);
  Sums sums = agree(tree, rows, request, state.step);
  parts_.watchdog.enter(Section::update, state.step);
  const Stopwatch updating;
  report.skipped = !finish_update(tree, report.learning_rate, state.step, sums.not_finite);
  parts_.replica.set_steps_tracked(tracked + 1);
  if (!report.skipped && parts_.replica.has_average()) parts_.replica.move_average();
  if (!order_known_) adopt_ready_order();
  epoch_.spent.update_s += updating.seconds();

  report.loss = sums.loss / static_cast<double>(epoch_.plan->count(epoch_.at));
  report.not_finite = sums.not_finite;
  report.request = sums.request;
  count_step(state, sums, report);
  count_time(state, stepping.seconds());
  return report;
}

// Afterwards the state is that after this step.
void Trainer::count_step(TrainingState& state, const Sums& sums, const StepReport& report) {
  if (std::isfinite(sums.loss)) {
    state.loss_sum += sums.loss;
    watch_loss(state, report.loss);
  } else {
    state.without_loss += epoch_.plan->count(epoch_.at);
  }
  state.correct += sums.correct;
  state.skipped_steps += report.skipped ? 1 : 0;
  state.coverage_sum += sums.coverage;
  state.replaced_samples += sums.replaced;
  require_few_replaced(parts_.comm, state.replaced_samples, options_.loader.max_bad, epoch_.replaced);
  ++state.step;
  state.cursor = epoch_.plan->cursor(++epoch_.at);
  state.optimizer_updates = parts_.replica.optimizer().updates();
  state.loss_scale = parts_.replica.loss_scale();
}

void Trainer::count_time(TrainingState& state, double seconds) {
  const BatchSource::Figures loaded = parts_.loader.figures();
  epoch_.spent.epoch_seconds += seconds;
  epoch_.spent.data_wait_s = loaded.wait_s;
  epoch_.spent.bytes_read = loaded.bytes_read;
  state.timing = epoch_.before + epoch_.spent;
  check_.step_took(seconds);
}

}  // namespace dtrain
