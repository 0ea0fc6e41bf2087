#include "dtrain/model/dense_slab.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <memory>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/model/graph_node.hpp"
#include "dtrain/model/row_products.hpp"
#include "dtrain/model/slab.hpp"

namespace dtrain {

using torch::autograd::variable_list;

namespace {

/// A part of a block on the way back. Its input or output is a token where it is not the block's own.
struct SlabNode : torch::autograd::Node {
  void release_variables() override {
    slab.reset();
    gamma.reset();
    kernel.reset();
    scales = {};
  }
  Slab& shared() const {
    check(slab != nullptr, "a block goes back once");
    return *slab;
  }
  std::shared_ptr<Slab> slab;
  at::Tensor gamma, kernel;  // of the norm over the slab, and of the product behind it [out, channels]
  NormScales scales;
};

template <class Kind>
std::shared_ptr<Kind> make_part(const std::shared_ptr<Slab>& slab) {
  auto node = make_node<Kind>();
  node->slab = slab;
  return node;
}

struct EnterNode final : SlabNode {
  int64_t width = 0;
  variable_list apply(variable_list&&) override { return {as_picture(shared().own_gradient(0, width), shared().nhw)}; }
};

struct LayerNode final : SlabNode {
  at::Tensor middle, gamma2;  // conv1's result, then norm2 and conv2
  NormScales scales2;
  ConvBack conv2;

  void release_variables() override {
    SlabNode::release_variables();
    middle.reset();
    gamma2.reset();
    scales2 = {};
    conv2 = {};
  }

  variable_list apply(variable_list&& given) override {
    Slab& s = shared();
    const int64_t first = kernel.size(1), growth = conv2.weight.size(0);
    const at::Tensor rectified = normalised_rows(middle, middle.size(1), scales2);
    const ConvBack::Gradients back =
        conv2(as_picture(rectified, s.nhw), as_picture(s.own_gradient(first, growth), s.nhw), true,
              task_should_compute_output(6));
    const at::Tensor gradient = as_rows(back.x);
    const NormGradients norm2 = norm_back(middle, scales2, gamma2, gradient, {}, gradient, gradient);
    const ProductGradients half = s.product_back(scales, gamma, kernel, gradient);
    return {given[0],     half.norm.weight, half.norm.bias, half.kernel.view({-1, first, 1, 1}),
            norm2.weight, norm2.bias,       back.weight};
  }
};

struct TransitionNode final : SlabNode {
  variable_list apply(variable_list&& given) override {
    Slab& s = shared();
    const at::Tensor gradient = as_rows(given[0]);
    const at::Tensor d_kernel = transposed_product(gradient, s.pooled(scales));
    const NormGradients norm = s.pooled_back(scales, gamma, multiplied(gradient, kernel));
    return {at::empty({1}, gamma.options()), norm.weight, norm.bias, d_kernel.view({-1, kernel.size(1), 1, 1})};
  }
};

struct LastNode final : SlabNode {
  variable_list apply(variable_list&& given) override {
    const NormGradients norm = shared().normalised_back(scales, gamma, as_rows(given[0]));
    return {at::empty({1}, gamma.options()), norm.weight, norm.bias};
  }
};

at::Tensor as_matrix(const Conv2d& conv) {
  return conv.weight.detach().view({conv.weight.size(0), conv.weight.size(1)});
}

}  // namespace

bool DenseSlab::serves(const at::Tensor& x, bool training) { return serves_rows(x, training); }

DenseSlab::DenseSlab(const at::Tensor& x, int64_t channels, bool training) {
  const at::TensorOptions options = at::TensorOptions().dtype(x.dtype());
  token_ = at::empty({1}, options);
  {
    const at::NoGradGuard no_grad;
    slab_ = std::make_shared<Slab>(nhw_of(x), channels, training, options);
    slab_->append(as_rows(x.detach()));
  }
  if (!wants_gradient({x})) return;
  const auto node = make_part<EnterNode>(slab_);
  node->width = x.size(1);
  follow({x}, node, token_);
}

void DenseSlab::add_layer(const BatchNorm2d& norm1, const Conv2d& conv1, const BatchNorm2d& norm2,
                          const Conv2d& conv2) {
  const auto node = make_part<LayerNode>(slab_);
  {
    const at::NoGradGuard no_grad;
    node->gamma = norm1.weight.detach();
    node->kernel = as_matrix(conv1);
    node->scales = slab_->scales(norm1);
    node->gamma2 = norm2.weight.detach();
    node->middle = slab_->product(node->scales, node->kernel, norm2, node->scales2);
    const at::Tensor rectified =
        as_picture(normalised_rows(node->middle, node->middle.size(1), node->scales2), slab_->nhw);
    node->conv2 = conv2.back(rectified);
    slab_->append(as_rows(conv2(rectified)));
  }
  const std::vector<at::Tensor> inputs = {token_,       norm1.weight, norm1.bias,  conv1.weight,
                                          norm2.weight, norm2.bias,   conv2.weight};
  if (!wants_gradient(inputs)) return;
  const at::Tensor next = at::empty({1}, token_.options());
  follow(inputs, node, next);
  token_ = next;
}

at::Tensor DenseSlab::transition(const BatchNorm2d& norm, const Conv2d& conv) {
  const auto node = make_part<TransitionNode>(slab_);
  at::Tensor result;
  {
    const at::NoGradGuard no_grad;
    node->gamma = norm.weight.detach();
    node->kernel = as_matrix(conv);
    node->scales = slab_->scales(norm);
    const std::vector<int64_t> half = {slab_->nhw[0], slab_->nhw[1] / 2, slab_->nhw[2] / 2};
    result = as_picture(multiplied(slab_->pooled(node->scales), node->kernel.t()), half);
  }
  const std::vector<at::Tensor> inputs = {token_, norm.weight, norm.bias, conv.weight};
  if (wants_gradient(inputs)) follow(inputs, node, result);
  return result;
}

at::Tensor DenseSlab::normalised(const BatchNorm2d& norm) {
  const auto node = make_part<LastNode>(slab_);
  at::Tensor result;
  {
    const at::NoGradGuard no_grad;
    node->gamma = norm.weight.detach();
    node->scales = slab_->scales(norm);
    result = as_picture(slab_->normalised(node->scales), slab_->nhw);
  }
  const std::vector<at::Tensor> inputs = {token_, norm.weight, norm.bias};
  if (wants_gradient(inputs)) follow(inputs, node, result);
  return result;
}

}  // namespace dtrain
