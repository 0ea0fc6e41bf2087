#include "dtrain/train/graphed_pass.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>

#include "dtrain/base/error.hpp"

namespace dtrain {

// Compares bits, not values: NaN equals NaN.
static bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(a.contiguous().view(at::kByte), b.contiguous().view(at::kByte));
}

GraphedPass::GraphedPass(std::unique_ptr<DeviceGraph> graph, Work work, std::vector<at::Tensor> changed)
    : graph_(std::move(graph)), work_(std::move(work)), changed_(std::move(changed)) {}

bool GraphedPass::fits(const at::Tensor& images, const at::Tensor& targets) const {
  return !images_.defined() || (images.sizes() == images_.sizes() && targets.sizes() == targets_.sizes());
}

GraphedPass::Result GraphedPass::run(const at::Tensor& images, const at::Tensor& targets) {
  check(fits(images, targets), "a recorded pass gets batches of one shape");
  if (!images_.defined()) {
    const Result eager = work_(images, targets, nullptr);
    images_ = images.clone();
    targets_ = targets.clone();
    graph_->record([this] { result_ = work_(images_, targets_, graph_.get()); });
    return eager;
  }
  images_.copy_(images);
  targets_.copy_(targets);
  const bool among_others = proven_ && graph_->overwritten();
  if (proven_ && (!among_others || proven_among_others_)) {
    graph_->replay();
    return result_;
  }
  prove();
  graph_->give_back_memory();  // memory of the pass that ran without a graph
  proven_ = true;
  proven_among_others_ = proven_among_others_ || among_others;
  return {result_.logits, result_.losses};
}

// Copies of everything that the pass has written.
std::vector<at::Tensor> GraphedPass::values(const Result& result) const {
  std::vector<at::Tensor> copies{result.logits.clone(), result.losses.clone()};
  for (const at::Tensor& tensor : changed_) copies.push_back(tensor.clone());
  return copies;
}

void GraphedPass::prove() {
  std::vector<at::Tensor> before;
  for (const at::Tensor& tensor : changed_) before.push_back(tensor.clone());
  const std::vector<at::Tensor> wanted = values(work_(images_, targets_, nullptr));
  {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < changed_.size(); ++i) changed_[i].copy_(before[i]);
  }
  graph_->replay();
  const std::vector<at::Tensor> got = values(result_);
  for (size_t i = 0; i < wanted.size(); ++i)
    check(same_bits(got[i], wanted[i]),
          "a recorded pass gives the bits of one that was not recorded; cuda_graphs: false trains without graphs");
}

}  // namespace dtrain
