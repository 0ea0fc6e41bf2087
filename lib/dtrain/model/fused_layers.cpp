#include "dtrain/model/fused_layers.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <vector>

#include "dtrain/model/graph_node.hpp"
#include "dtrain/model/row_passes.hpp"
#include "dtrain/model/sketch.hpp"

namespace dtrain {

using torch::autograd::variable_list;

namespace {

std::vector<int64_t> picture_of(const at::Tensor& x) { return {x.size(0), x.size(2), x.size(3)}; }

struct NormReluNode final : torch::autograd::Node {
  at::Tensor x, gamma, result;  // result: where something was added
  NormScales scales;
  std::vector<int64_t> nhw;

  void release_variables() override {
    for (at::Tensor* tensor : {&x, &gamma, &result}) tensor->reset();
    scales = {};
  }

  variable_list apply(variable_list&& given) override {
    require_once(x);
    const at::Tensor dy = as_rows(given[0]), d = at::empty_like(dy), dx = result.defined() ? at::empty_like(dy) : d;
    const NormGradients norm = norm_back(x, scales, gamma, dy, result, d, dx);
    variable_list gradients = {as_picture(dx, nhw), norm.weight, norm.bias};
    if (result.defined()) gradients.push_back(as_picture(d, nhw));
    return gradients;
  }
};

bool lies_in_rows(const at::Tensor& x) {
  return x.is_contiguous(at::MemoryFormat::ChannelsLast) && fills_rows(x.size(1), x.numel());
}

}  // namespace

bool fuses(const BatchNorm2d& norm, const at::Tensor& x) {
  return norm.is_fused() && serves_rows(x, norm.is_training()) && lies_in_rows(x);
}

bool fuses(const BatchNorm2d& norm, const Sketch& x) {
  const int64_t channels = x.shape[0];
  return norm.is_fused() && x.list->fused() && fills_rows(channels, channels * x.shape[1] * x.shape[2]);
}

at::Tensor fused_norm_relu(const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& more) {
  const auto node = make_node<NormReluNode>();
  at::Tensor y;
  {
    const at::NoGradGuard no_grad;
    node->nhw = picture_of(x);
    node->x = as_rows(x.detach());
    node->gamma = norm.weight.detach();
    node->scales = norm_scales(norm, node->x);
    y = normalised_rows(node->x, x.size(1), node->scales, more.defined() ? as_rows(more.detach()) : more);
    if (more.defined()) node->result = y;
    y = as_picture(y, node->nhw);
  }
  std::vector<at::Tensor> inputs = {x, norm.weight, norm.bias};
  if (more.defined()) inputs.push_back(more);
  if (wants_gradient(inputs)) follow(inputs, node, y);
  return y;
}

}  // namespace dtrain
