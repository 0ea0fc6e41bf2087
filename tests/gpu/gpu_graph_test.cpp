#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "dtrain/model/loss.hpp"
#include "dtrain/model/precision.hpp"
#include "dtrain/train/graphed_pass.hpp"
#include "dtrain/train/replica.hpp"
#include "gpu.hpp"

using namespace dtrain;

namespace {

// A network on the GPU whose gradients add up in place, as in training.
class Passes {
 public:
  Passes(NetworkName name, Precision precision, const Device& gpu)
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

 private:
  static std::shared_ptr<Network> network_of(NetworkName name) {
    ModelOptions model;
    model.name = name;
    model.dropout = 0;
    return make_network(model, {3, 64, 64, 3}, 7);
  }

  Replica replica_;
  Loss loss_;
  at::Tensor gradients_;
};

}  // namespace

TEST_CASE("a recorded step on the GPU has the bits of a plain one, batch after batch") {
  const auto gpu = test::first_gpu();
  if (!gpu) return;
  set_deterministic(true);
  for (const NetworkName name : {NetworkName::small_cnn, NetworkName::densenet121, NetworkName::resnet50})
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      INFO("network " << static_cast<int>(name) << ", precision " << static_cast<int>(precision));
      Passes plain(name, precision, *gpu);
      Passes graphed(name, precision, *gpu);
      GraphedPass pass(
          gpu->module->make_graph(), [&](const at::Tensor& x, const at::Tensor& y) { return graphed.run(x, y); },
          graphed.changed());
      for (int i = 0; i < 5; ++i) {
        const at::Tensor images =
            at::rand({4, 3, 64, 64}, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast).to(gpu->place);
        const at::Tensor targets = at::rand({4, 3}, at::kFloat).gt(0.5).to(at::kFloat).to(gpu->place);
        const GraphedPass::Result wanted = plain.run(images, targets);
        const GraphedPass::Result got = pass.run(images, targets);
        CHECK(test::same_bits(got.logits, wanted.logits));
        CHECK(test::same_bits(got.losses, wanted.losses));
        for (size_t k = 0; k < plain.changed().size(); ++k)
          CHECK(test::same_bits(graphed.changed()[k], plain.changed()[k]));
      }
    }
}
