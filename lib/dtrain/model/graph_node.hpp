#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "dtrain/base/error.hpp"

/// Nodes of LibTorch's autograd graph that are written here. A node keeps tensors without history, so that nothing
/// refers to itself in a circle, and goes back once.
namespace dtrain {

inline bool wants_gradient(const std::vector<at::Tensor>& inputs) {
  return at::GradMode::is_enabled() && std::ranges::any_of(inputs, &at::Tensor::requires_grad);
}

template <class Kind>
std::shared_ptr<Kind> make_node() {
  return std::shared_ptr<Kind>(new Kind(), torch::autograd::deleteNode);
}

/// Makes `result` follow from `inputs` by this node, whose apply() gets the gradient of `result` and returns those of
/// `inputs`, in their order.
inline void follow(const std::vector<at::Tensor>& inputs, const std::shared_ptr<torch::autograd::Node>& node,
                   const at::Tensor& result) {
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  torch::autograd::set_history(result, node);
}

/// Throws InternalError if a node has released what it kept.
inline void require_once(const at::Tensor& kept) { check(kept.defined(), "a fused layer goes back once"); }

}  // namespace dtrain
