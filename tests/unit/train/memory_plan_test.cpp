#include "dtrain/train/memory_plan.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>

#include "dtrain/model/loss.hpp"
#include "dtrain/model/network.hpp"
#include "support/catch.hpp"

using namespace dtrain;

// The bytes that this thread's LibTorch tensors hold while the object exists.
class HeldByTensors : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    held_ += bytes;
    most = std::max(most, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t most = 0;

 private:
  int64_t held_ = 0;
};

static int64_t most_held_by_a_step(const ModelOptions& options, const NetworkShape& shape, int64_t pictures) {
  at::set_num_threads(1);
  const auto network = make_network(options, shape, 1);
  network->set_random_key(1, 0, 0);
  for (const NamedTensor& parameter : network->named_parameters())
    if (parameter.tensor.dim() == 4)
      at::Tensor(parameter.tensor).set_data(parameter.tensor.detach().contiguous(at::MemoryFormat::ChannelsLast));
  for (const NamedTensor& parameter : network->named_parameters())
    at::Tensor(parameter.tensor).mutable_grad() = at::zeros_like(parameter.tensor);
  const auto held = std::make_shared<HeldByTensors>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, held);
  const bool pixels = options.kind->per_pixel;
  const at::Tensor images =
      at::zeros({pictures, shape.channels, shape.height, shape.width}, at::MemoryFormat::ChannelsLast);
  const at::Tensor targets =
      pixels ? at::zeros({pictures, shape.outputs, shape.height, shape.width}) : at::zeros({pictures, shape.outputs});
  const at::Tensor logits = network->forward(images);
  const Loss loss({}, pixels ? Task::segmentation : Task::multilabel, {});
  loss.per_sample(logits, targets).sum().backward();
  return held->most;
}

TEST_CASE("a step holds what the plan says, for every network", "[long]") {
  const auto of = [](const std::string& name) {
    ModelOptions options;
    options.kind = network_kind(name);
    options.dropout = 0.25;
    options.fused = false;
    return options;
  };
  ModelOptions two_levels = of("unet"), encoded = of("unet"), fused_unet = of("unet");
  ModelOptions slabs = of("densenet121"), fused = of("resnet50"), fused_cnn = of("small_cnn");
  slabs.fused = fused.fused = fused_cnn.fused = two_levels.fused = true;
  ModelOptions fused_encoded = of("unet");
  fused_encoded.fused = true;
  fused_encoded.encoder = network_kind("resnet18");
  two_levels.levels = 2;
  fused_unet.fused = true;
  encoded.encoder = network_kind("resnet18");
  const auto [options, shape, pictures] = GENERATE_COPY(
      std::tuple{slabs, NetworkShape{3, 96, 64, 14}, 8}, std::tuple{of("densenet121"), NetworkShape{3, 64, 64, 14}, 4},
      std::tuple{fused, NetworkShape{3, 96, 64, 5}, 4}, std::tuple{of("resnet50"), NetworkShape{3, 96, 64, 5}, 4},
      std::tuple{of("unet"), NetworkShape{1, 64, 80, 2}, 2}, std::tuple{two_levels, NetworkShape{1, 64, 80, 2}, 2},
      std::tuple{fused_unet, NetworkShape{1, 64, 80, 2}, 2}, std::tuple{encoded, NetworkShape{3, 128, 128, 2}, 8},
      std::tuple{fused_encoded, NetworkShape{3, 128, 128, 2}, 8},
      std::tuple{of("small_cnn"), NetworkShape{3, 50, 70, 2}, 3}, std::tuple{fused_cnn, NetworkShape{3, 50, 70, 2}, 3});
  const NetworkKind* name = options.kind;
  INFO(name->name << ", " << options.levels << " levels, encoder " << (options.encoder != nullptr)
                  << (options.fused ? ", fused" : ", plain"));
  MemoryNeeds needs;
  needs.pictures = pictures;
  needs.target_values = shape.outputs * (name->per_pixel ? shape.height * shape.width : 1);
  needs.batches_ahead = 0;
  const MemoryPlan plan = plan_memory(make_unfilled_network(options, shape)->tape(shape, options.fused), needs);
  const double measured = static_cast<double>(most_held_by_a_step(options, shape, pictures)) / 1e6;
  CHECK(plan.weights_mb == Approx(0).margin(1e-3));
  CHECK(plan.held_mb == Approx(measured).epsilon(0.15));
  CHECK(plan.pass_mb >= plan.held_mb);
}

TEST_CASE("weights, gradients, state, batches ahead and checkpoints are counted") {
  PassTape tape;  // a picture of 1,000 floats, one linear layer
  tape.values = {1000, 10};
  tape.steps = {{PassTape::Op::linear, {0}, 1, 10'000}};
  MemoryNeeds needs;
  needs.parameters = 1'000'000;
  needs.buffers = 1'000;
  needs.states = 2;
  needs.gradient_buffers = 3;
  const MemoryPlan plan = plan_memory(tape, needs);
  CHECK(plan.weights_mb == Approx(4 * (6 * 1.0 + 4 * 0.001)).epsilon(1e-3));
  CHECK(plan.saving_mb >= 4 * (1 + 3) - 4.1);  // the best and the checkpoint, but for a gap
  CHECK(plan.pass_mb < 4 + 0.2);               // the gap that new places of the parameters leave, and next to nothing
  needs.batches_ahead = 5;
  const MemoryPlan more = plan_memory(tape, needs);
  needs.parameters = 0;
  needs.batches_ahead = 2;
  const MemoryPlan bare = plan_memory(tape, needs);
  needs.batches_ahead = 5;
  CHECK(more.weights_mb == plan.weights_mb);
  CHECK(plan_memory(tape, needs).pass_mb == Approx(bare.pass_mb + 3 * 0.004).epsilon(0.03));
}

TEST_CASE("a convolution's kernel is copied while it is computed with, its gradient twice in backward") {
  PassTape tape;
  tape.values = {1000, 10};
  tape.steps = {{PassTape::Op::convolution, {0}, 1, 10'000}};
  MemoryNeeds needs;
  needs.batches_ahead = 0;
  // Picture, logits, their gradient; a piece of the heap is a little larger than what it holds.
  const double beside = 4 * (1000 + 10 + 10) / 1e6;
  CHECK(plan_memory(tape, needs).held_mb == Approx(3 * 0.04 + beside).margin(1e-3));
  tape.steps[0].op = PassTape::Op::linear;
  CHECK(plan_memory(tape, needs).held_mb == Approx(0.04 + beside).margin(1e-3));
}

TEST_CASE("what an operator was given is freed before its input's gradient is added to another one") {
  PassTape tape;  // value 2 is made from value 1, which is then added to it; on the way back both share one gradient
  tape.values = {1, 1'000'000, 1'000'000, 1};
  tape.steps = {{PassTape::Op::upsample, {0}, 1},
                {PassTape::Op::upsample, {1}, 2},
                {PassTape::Op::add, {2, 1}, 2},
                {PassTape::Op::global_pool, {2}, 3}};
  MemoryNeeds needs;
  needs.batches_ahead = 0;
  CHECK(plan_memory(tape, needs).held_mb == Approx(2 * 4.0).margin(1e-2));  // and never a third
}

TEST_CASE("what a step needs while it runs is held for each picture, and for a slab twice that on the way back") {
  const auto [op, times] = GENERATE(std::pair{PassTape::Op::convolution, 1}, std::pair{PassTape::Op::slab_end, 2});
  PassTape tape;
  tape.values = {1, 1};
  tape.steps = {{.op = op, .reads = {0}, .makes = 1, .scratch = 1'000'000}};
  MemoryNeeds needs;
  needs.pictures = 3;
  needs.batches_ahead = 0;
  CHECK(plan_memory(tape, needs).held_mb == Approx(times * 3 * 4.0).margin(1e-3));
}

TEST_CASE("what dropout multiplied by is kept as floats until the way back has passed it") {
  PassTape tape;
  tape.values = {1, 1'000'000, 1'000'000, 1};
  tape.steps = {{PassTape::Op::upsample, {0}, 1}, {PassTape::Op::dropout, {1}, 2}, {PassTape::Op::global_pool, {2}, 3}};
  MemoryNeeds needs;
  needs.batches_ahead = 0;
  CHECK(plan_memory(tape, needs).held_mb == Approx(3 * 4.0).margin(1e-2));  // beside what it reads and makes
}

TEST_CASE("a pass in 16 bits holds little more than half") {
  const NetworkShape shape{3, 64, 64, 14};
  ModelOptions options;
  options.kind = network_kind("resnet50");
  MemoryNeeds needs;
  needs.pictures = 64;  // so that the copies of the weights matter little
  needs.batches_ahead = 0;
  const PassTape tape = make_network(options, shape, 1)->tape(shape, false);
  const double in_floats = plan_memory(tape, needs).pass_mb;
  needs.value_bytes = 2;
  const double in_halves = plan_memory(tape, needs).pass_mb;
  CHECK(in_halves < 0.9 * in_floats);
  CHECK(in_halves > 0.5 * in_floats);
}
