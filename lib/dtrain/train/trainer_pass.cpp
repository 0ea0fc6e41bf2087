#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <functional>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/model/deep_supervision.hpp"
#include "dtrain/train/trainer.hpp"

// One batch through the network and back, directly or as a recorded graph.

namespace dtrain {

// [R, K, 3] over the samples of a pass, of each resolution; see PassInput for targets and mixing.
at::Tensor Trainer::sums_of(const std::vector<at::Tensor>& logits, const at::Tensor& targets) const {
  const int64_t n = logits.front().size(0);
  const at::Tensor own = deep_sums(parts_.loss, logits, targets.slice(0, 0, n)).sum(0);
  if (!options_.mix.on()) return own;
  const at::Tensor partners = deep_sums(parts_.loss, logits, targets.slice(0, n)).sum(0);
  return own * loss_factors_.mix_share + partners * (1 - loss_factors_.mix_share);
}

// Runs all passes of the step forward, without a graph, to add up what the loss needs of the whole batch; keeps their
// inputs for the passes that follow. Dropout draws the same numbers in both. BatchNorm's statistics move in the second
// alone, which starts from those before this one. Returns the seconds that this process waited for the others.
double Trainer::add_up_batch(const CanonicalTree& tree, int64_t step) {
  const at::NoGradGuard no_grad;
  const auto span = parts_.trace.span("sums of the batch", step);
  const auto classes = static_cast<int64_t>(parts_.dataset.classes.size());
  const std::vector<int64_t> shape = {options_.resolutions, classes, 3};
  const at::Tensor own = at::zeros({mine_.size(), options_.resolutions, classes, 3}, at::kDouble);
  for (int64_t v = mine_.begin; v < mine_.end; ++v) {
    const auto micro_batches = static_cast<int64_t>(epoch_.plan->micro_batches(epoch_.at, v).size());
    for (int64_t micro = 0; tree.present(v) && micro < micro_batches; ++micro) {
      epoch_.seen.push_back(take_input(v, step, micro));
      const Stopwatch computing;
      prepare_pass(epoch_.seen.back(), v, step, micro);
      const std::vector<at::Tensor> logits = parts_.replica.forward_all(epoch_.seen.back().images);
      own[v - mine_.begin] += sums_of(logits, epoch_.seen.back().targets).cpu();
      epoch_.spent.compute_s += computing.seconds();
    }
  }
  parts_.watchdog.enter(Section::reduce, step);
  const Stopwatch waiting;
  const at::Tensor rows = gather_logical_rows(parts_.comm, options_.logical_ranks, own.flatten(1));
  const double waited = waiting.seconds();
  BatchSums& batch = loss_factors_.batch;
  if (!batch.sums.defined()) {
    const auto on_device = at::TensorOptions(at::kDouble).device(parts_.replica.device().place);
    batch = {at::empty(shape, on_device), at::empty({}, on_device)};
  }
  batch.sums.copy_(canonical_row_sum(tree, rows).view(shape));
  batch.samples.fill_(epoch_.plan->count(epoch_.at));
  const at::Tensor spoilt = rows.isfinite().all(1).logical_not().nonzero();
  loss_factors_.spoilt_by = spoilt.size(0) > 0 ? std::optional(spoilt[0][0].item<int64_t>()) : std::nullopt;
  return waited;
}

// With mixing `targets` are the samples' own, then their partners'.
at::Tensor Trainer::losses_of(const std::vector<at::Tensor>& logits, const at::Tensor& targets) const {
  const int64_t n = logits.front().size(0);
  BatchSums batch = loss_factors_.batch;
  if (parts_.loss.needs_sums() && !options_.adds_up_first) {
    std::vector<at::Tensor> known;
    for (const at::Tensor& one : logits) known.push_back(one.detach());
    const at::Tensor own = sums_of(known, targets);
    batch = {own, at::full({}, n, own.options())};
  }
  if (!options_.mix.on()) return deep_per_sample(parts_.loss, logits, targets, batch);
  const at::Tensor own = deep_per_sample(parts_.loss, logits, targets.slice(0, 0, n), batch);
  const at::Tensor partners = deep_per_sample(parts_.loss, logits, targets.slice(0, n), batch);
  return own * loss_factors_.mix_share + partners * (1 - loss_factors_.mix_share);
}

GraphedPass::Result Trainer::forward_backward(const at::Tensor& images, const at::Tensor& targets,
                                              DeviceGraph* recording) {
  auto span = parts_.trace.span("forward");
  const std::vector<at::Tensor> logits = parts_.replica.forward_all(images);
  const at::Tensor losses = losses_of(logits, targets);
  const at::Tensor loss = losses.sum().div(loss_factors_.divisor);
  span.end();
  const auto backward = parts_.trace.span("backward");
  GraphedPass::Result result{logits.front().detach(), losses.detach()};
  if (recording != nullptr)
    result.filled = reducer_.mark_buckets([recording] { return recording->mark(); }, [&loss] { loss.backward(); });
  else
    loss.backward();
  return result;
}

// Null if this pass is not recorded. Graphs are made once the layout is final, since they contain its addresses.
GraphedPass* Trainer::graph_for(const at::Tensor& images, const at::Tensor& targets) {
  GpuModule* const gpu = parts_.replica.device().module;
  if (!options_.cuda_graphs || gpu == nullptr || !order_known_) return nullptr;
  const at::Tensor gradients = reducer_.leaf_gradients();
  const void* const place = gradients.const_data_ptr();
  if (!graphs_.contains(place)) {
    if (images.size(0) != largest_batch(options_.batch, options_.logical_ranks)) return nullptr;
    graphs_.try_emplace(place, gpu->make_graph(), std::bind_front(&Trainer::forward_backward, this),
                        std::vector<at::Tensor>{gradients, parts_.replica.moving_buffers()});
  }
  GraphedPass& graph = graphs_.at(place);
  return graph.fits(images, targets) ? &graph : nullptr;
}

// The next batch of the loader, on the device and mixed.
Trainer::PassInput Trainer::take_input(int64_t logical_rank, int64_t step, int64_t micro) {
  // A GPU that still works does not wait for the loader yet.
  if (!epoch_.issued.empty() && !parts_.loader.ready()) {
    const Stopwatch computing;
    epoch_.issued.back().figures.wait();
    epoch_.spent.compute_s += computing.seconds();
  }
  parts_.watchdog.enter(Section::load, step);
  auto waiting = parts_.trace.span("wait for batch", step);
  auto batch = parts_.loader.next();
  waiting.end();
  check(batch.has_value(), "the loader has a batch for every pass of the plan");
  parts_.watchdog.enter(Section::compute, step);
  const Stopwatch computing;
  const c10::Device place = parts_.replica.device().place;
  PassInput input{std::move(batch->samples), batch->images.to(place), batch->targets.to(place)};
  if (options_.mix.on()) {
    const int64_t key = step * options_.batch.accumulate + micro;
    const MixedBatch mixed = mix_batch(draw_mix(options_.mix, options_.seed, key, logical_rank), input.images,
                                       input.targets, options_.task == Task::segmentation);
    input.images = mixed.images;
    input.targets = mixed.targets;
    input.mix_share = mixed.share;
  }
  input.replaced = static_cast<int64_t>(batch->replaced.size());
  epoch_.replaced.insert(epoch_.replaced.end(), batch->replaced.begin(), batch->replaced.end());
  epoch_.spent.compute_s += computing.seconds();
  return input;
}

// What the pass reads besides its input.
void Trainer::prepare_pass(const PassInput& input, int64_t logical_rank, int64_t step, int64_t micro) {
  parts_.replica.network().set_random_key(options_.seed, step * options_.batch.accumulate + micro, logical_rank);
  if (options_.mix.on()) loss_factors_.mix_share.fill_(input.mix_share);
}

Trainer::Pass Trainer::run_micro_batch(int64_t logical_rank, int64_t step, int64_t micro, bool last) {
  PassInput input;
  if (options_.adds_up_first) {
    input = std::move(epoch_.seen.front());
    epoch_.seen.pop_front();
    parts_.watchdog.enter(Section::compute, step);
  } else {
    input = take_input(logical_rank, step, micro);
  }
  const Stopwatch computing;
  prepare_pass(input, logical_rank, step, micro);
  const at::Tensor &images = input.images, &targets = input.targets;
  GraphedPass* const graph = graph_for(images, targets);
  reducer_.begin_pass(last && graph == nullptr);  // a replay does not report which gradients are ready
  auto span = parts_.trace.span("pass", logical_rank);
  const GraphedPass::Result result =
      graph != nullptr ? graph->run(images, targets) : forward_backward(images, targets, nullptr);
  if (last) reducer_.replayed(result.filled);
  span.end();
  // New tensors, since the next pass's graph overwrites the result.
  const at::Tensor loss = result.losses.sum(at::kDouble);
  at::Tensor correct = at::zeros_like(loss);
  if (options_.task == Task::multiclass) {
    const at::Tensor own_targets = targets.slice(0, 0, images.size(0));
    correct = result.logits.argmax(1).eq(own_targets).sum().to(at::kDouble);
  }
  Pass pass{.logical_rank = logical_rank, .figures = LateCopy(at::stack({loss, correct})), .replaced = input.replaced};
  for (const int64_t sample : input.samples) pass.coverage += parts_.dataset.samples[static_cast<size_t>(sample)].id;
  epoch_.spent.compute_s += computing.seconds();
  return pass;
}

}  // namespace dtrain
