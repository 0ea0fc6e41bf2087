#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <memory>
#include <vector>

#include "dtrain/device/side_stream.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/model/precision.hpp"
#include "dtrain/train/graphed_pass.hpp"
#include "dtrain/train/replica.hpp"
#include "gpu.hpp"

using namespace dtrain;

namespace {

// A network on the GPU whose gradients are added in place, as in training.
class Passes {
 public:
  Passes(const NetworkKind* name, Precision precision, const Device& gpu)
      : replica_(network_of(name), at::MemoryFormat::ChannelsLast, OptimizerOptions{}, gpu, precision),
        loss_({}, Task::multilabel, {1, 2, 3}, gpu.place),
        gradients_(at::zeros_like(replica_.flat_parameters())) {
    for (size_t i = 0; i < replica_.parameters().size(); ++i)
      at::Tensor(replica_.parameters()[i]).mutable_grad() = replica_.layout().view(gradients_, replica_.place_of(i));
    replica_.network().train();
  }

  GraphedPass::Result run(const at::Tensor& images, const at::Tensor& targets) {
    const at::AutoGradMode with_grad(true);
    const at::Tensor logits = replica_.forward(images);
    const at::Tensor losses = loss_.per_sample(logits, targets);
    losses.sum().backward();
    return {logits.detach(), losses.detach()};
  }

  std::vector<at::Tensor> changed() const { return {gradients_, replica_.flat_buffers()}; }

  std::unique_ptr<GraphedPass> recorded(const Device& gpu) {
    return std::make_unique<GraphedPass>(
        gpu.module->make_graph(), [this](const at::Tensor& x, const at::Tensor& y, DeviceGraph*) { return run(x, y); },
        changed());
  }

 private:
  static std::shared_ptr<Network> network_of(const NetworkKind* name) {
    ModelOptions model;
    model.kind = name;
    model.dropout = 0;
    return make_network(model, {3, 64, 64, 3}, 7);
  }

  Replica replica_;
  Loss loss_;
  at::Tensor gradients_;
};

at::Tensor some_images(int64_t count, const Device& gpu) {
  return at::rand({count, 3, 64, 64}, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast).to(gpu.place);
}

at::Tensor some_targets(int64_t count, const Device& gpu) {
  return at::rand({count, 3}, at::kFloat).gt(0.5).to(at::kFloat).to(gpu.place);
}

}  // namespace

TEST_CASE("a recorded step on the GPU has the bits of a plain one, batch after batch", "[deep]") {
  const auto gpu = test::first_gpu();
  if (!gpu) return;
  set_deterministic(true);
  for (const NetworkKind* name : {network_kind("small_cnn"), network_kind("densenet121"), network_kind("resnet50")})
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      INFO("network " << name->name << ", precision " << static_cast<int>(precision));
      Passes plain(name, precision, *gpu);
      Passes graphed(name, precision, *gpu);
      const auto pass = graphed.recorded(*gpu);
      for (int i = 0; i < 5; ++i) {
        const at::Tensor images = some_images(4, *gpu);
        const at::Tensor targets = some_targets(4, *gpu);
        const GraphedPass::Result wanted = plain.run(images, targets);
        const GraphedPass::Result got = pass->run(images, targets);
        CHECK(test::same_bits(got.logits, wanted.logits));
        CHECK(test::same_bits(got.losses, wanted.losses));
        for (size_t k = 0; k < plain.changed().size(); ++k)
          CHECK(test::same_bits(graphed.changed()[k], plain.changed()[k]));
      }
    }
}

TEST_CASE("graphs on the GPU that work in one memory keep their bits, in whatever order they run", "[deep]") {
  const auto gpu = test::first_gpu();
  if (!gpu) return;
  set_deterministic(true);
  // Of different sizes, so that each overlaps the other's results.
  const std::vector<std::pair<const NetworkKind*, int64_t>> kinds = {
      {network_kind("small_cnn"), 8}, {network_kind("densenet121"), 4}, {network_kind("resnet50"), 2}};
  std::vector<std::unique_ptr<Passes>> plain;
  std::vector<std::unique_ptr<Passes>> graphed;
  std::vector<std::unique_ptr<GraphedPass>> passes;
  for (const auto& [name, count] : kinds) {
    plain.push_back(std::make_unique<Passes>(name, Precision::fp32, *gpu));
    graphed.push_back(std::make_unique<Passes>(name, Precision::fp32, *gpu));
    passes.push_back(graphed.back()->recorded(*gpu));
  }
  for (const size_t k : {0, 1, 2, 0, 1, 2, 2, 1, 0, 0, 2, 0, 1, 1, 2}) {
    INFO("network " << k);
    const at::Tensor images = some_images(kinds[k].second, *gpu);
    const at::Tensor targets = some_targets(kinds[k].second, *gpu);
    const GraphedPass::Result wanted = plain[k]->run(images, targets);
    const GraphedPass::Result got = passes[k]->run(images, targets);
    CHECK(test::same_bits(got.logits, wanted.logits));
    CHECK(test::same_bits(got.losses, wanted.losses));
    for (size_t i = 0; i < plain[k]->changed().size(); ++i)
      CHECK(test::same_bits(graphed[k]->changed()[i], plain[k]->changed()[i]));
  }
}

TEST_CASE("work beside a graph on the GPU comes after the point in it that it waits for, in each replay") {
  const auto gpu = test::first_gpu();
  if (!gpu) return;
  const at::Tensor heavy = test::heavy_matrix(*gpu);
  const at::Tensor input = at::zeros({1 << 20}, heavy.options()), early = at::zeros_like(input);
  const SideStream side(gpu->place);
  const auto graph = gpu->module->make_graph();
  const auto work_a_while = [&] {
    for (int i = 0; i < 5; ++i) at::mm(heavy, heavy);
  };
  work_a_while();  // libraries start outside a recording
  Mark half;
  graph->record([&] {
    work_a_while();
    at::Tensor(early).copy_(input);
    half = graph->mark();
    work_a_while();
  });
  for (int round = 1; round <= 10; ++round) {
    at::Tensor(input).fill_(round);
    graph->replay();
    {
      SideStream::Scope scope;
      side.enter(half, scope);
      const at::Tensor seen = early * 2;
      CHECK(seen.min().item<float>() == static_cast<float>(2 * round));
      CHECK(seen.max().item<float>() == static_cast<float>(2 * round));
    }
    side.join();
  }
}

TEST_CASE("a second graph on the GPU takes next to no memory, and what its proof took is given back", "[deep]") {
  const auto gpu = test::first_gpu();
  if (!gpu) return;
  set_deterministic(true);
  constexpr int64_t kCount = 64;
  Passes passes(network_kind("densenet121"), Precision::fp32, *gpu);
  const at::Tensor images = some_images(kCount, *gpu);
  const at::Tensor targets = some_targets(kCount, *gpu);
  passes.run(images, targets);  // libraries take memory at their first use
  gpu->module->make_graph()->give_back_memory();
  std::vector<double> free_mb{gpu->module->memory_free_mb()};
  std::vector<std::unique_ptr<GraphedPass>> graphs;
  for (int k = 0; k < 3; ++k) {
    graphs.push_back(passes.recorded(*gpu));
    for (int i = 0; i < 3; ++i) graphs.back()->run(images, targets);  // recorded, proved, replayed
    free_mb.push_back(gpu->module->memory_free_mb());
  }
  const double first = free_mb[0] - free_mb[1];
  INFO("free, MB: " << free_mb[0] << ", " << free_mb[1] << ", " << free_mb[2] << ", " << free_mb[3]);
  CHECK(first > 100);
  CHECK(free_mb[1] - free_mb[2] < first / 4);
  CHECK(free_mb[2] - free_mb[3] < first / 4);
}
