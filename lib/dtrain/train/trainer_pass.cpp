#include <ATen/ATen.h>

#include <functional>

#include "dtrain/base/error.hpp"
#include "dtrain/train/trainer.hpp"

// One batch through the network and back, directly or as a recorded graph.

namespace dtrain {

// With mixing `targets` are the samples' own, then their partners'.
at::Tensor Trainer::losses_of(const at::Tensor& logits, const at::Tensor& targets) const {
  if (!options_.mix.on()) return parts_.loss.per_sample(logits, targets);
  const int64_t n = logits.size(0);
  const at::Tensor own = parts_.loss.per_sample(logits, targets.slice(0, 0, n));
  const at::Tensor partners = parts_.loss.per_sample(logits, targets.slice(0, n));
  return own * loss_factors_.mix_share + partners * (1 - loss_factors_.mix_share);
}

GraphedPass::Result Trainer::forward_backward(const at::Tensor& images, const at::Tensor& targets) {
  auto span = parts_.trace.span("forward");
  const at::Tensor logits = parts_.replica.forward(images);
  const at::Tensor losses = losses_of(logits, targets);
  const at::Tensor loss = losses.sum().div(loss_factors_.divisor);
  span.end();
  const auto backward = parts_.trace.span("backward");
  loss.backward();
  return {logits.detach(), losses.detach()};
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

Trainer::Pass Trainer::run_micro_batch(int64_t logical_rank, int64_t step, int64_t micro, bool last) {
  parts_.watchdog.enter(Section::load, step);
  auto waiting = parts_.trace.span("wait for batch", step);
  const auto batch = parts_.loader.next();
  waiting.end();
  check(batch.has_value(), "the loader has a batch for every pass of the plan");
  parts_.watchdog.enter(Section::compute, step);
  const Stopwatch computing;
  const int64_t key = step * options_.batch.accumulate + micro;
  parts_.replica.network().set_random_key(options_.seed, key, logical_rank);
  const at::Tensor own_targets = batch->targets.to(parts_.replica.device().place);
  at::Tensor images = batch->images.to(parts_.replica.device().place);
  at::Tensor targets = own_targets;
  if (options_.mix.on()) {
    const MixedBatch mixed = mix_batch(draw_mix(options_.mix, options_.seed, key, logical_rank), images, targets,
                                       options_.task == Task::segmentation);
    images = mixed.images;
    targets = mixed.targets;
    loss_factors_.mix_share.fill_(mixed.share);
  }
  GraphedPass* const graph = graph_for(images, targets);
  reducer_.begin_pass(last && graph == nullptr);  // a replay does not report which gradients are ready
  auto span = parts_.trace.span("pass", logical_rank);
  const GraphedPass::Result result = graph != nullptr ? graph->run(images, targets) : forward_backward(images, targets);
  span.end();
  Pass pass;  // plain numbers: the next pass's graph overwrites the result
  pass.loss_sum = result.losses.sum(at::kDouble).item<double>();
  if (options_.task == Task::multiclass) pass.correct = result.logits.argmax(1).eq(own_targets).sum().item<int64_t>();
  for (int64_t sample : batch->samples) pass.coverage += parts_.dataset.samples[static_cast<size_t>(sample)].id;
  epoch_.replaced.insert(epoch_.replaced.end(), batch->replaced.begin(), batch->replaced.end());
  epoch_.spent.compute_s += computing.seconds();
  return pass;
}

}  // namespace dtrain
