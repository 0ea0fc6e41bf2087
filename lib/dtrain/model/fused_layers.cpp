#include "dtrain/model/fused_layers.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <utility>
#include <vector>

#include "dtrain/model/device_norms.hpp"
#include "dtrain/model/functions.hpp"
#include "dtrain/model/graph_node.hpp"
#include "dtrain/model/pool_passes.hpp"
#include "dtrain/model/row_products.hpp"
#include "dtrain/model/sketch.hpp"

namespace dtrain {

using torch::autograd::variable_list;

namespace {

/// The input of a norm with a ReLU behind it, and what its way back needs.
struct RectifiedNorm {
  at::Tensor x, gamma;  // x: rows
  NormScales scales;
  std::vector<int64_t> nhw;

  RectifiedNorm() = default;
  RectifiedNorm(const BatchNorm2d& norm, const at::Tensor& picture)
      : x(as_rows(picture.detach())), gamma(norm.weight.detach()), scales(norm_scales(norm, x)), nhw(nhw_of(picture)) {}

  at::Tensor rows(const at::Tensor& more = {}) const { return normalised_rows(x, x.size(1), scales, more); }

  /// The gradients of x, of the norm's weight and of its bias; dy becomes that of x.
  variable_list back(const at::Tensor& dy) const {
    const NormGradients norm = norm_back(x, scales, gamma, dy, {}, dy, dy);
    return {as_picture(dy, nhw), norm.weight, norm.bias};
  }
};

struct NormReluNode final : torch::autograd::Node {
  RectifiedNorm norm;
  at::Tensor result;  // where something was added

  void release_variables() override {
    norm = {};
    result.reset();
  }

  variable_list apply(variable_list&& given) override {
    require_once(norm.x);
    const at::Tensor dy = as_rows(given[0]), d = at::empty_like(dy), dx = result.defined() ? at::empty_like(dy) : d;
    const NormGradients back = norm_back(norm.x, norm.scales, norm.gamma, dy, result, d, dx);
    variable_list gradients = {as_picture(dx, norm.nhw), back.weight, back.bias};
    if (result.defined()) gradients.push_back(as_picture(d, norm.nhw));
    return gradients;
  }
};

// What is no longer needed goes before more is made.
struct NormReluConvNode final : torch::autograd::Node {
  RectifiedNorm norm;
  ConvBack conv;

  void release_variables() override {
    norm = {};
    conv = {};
  }

  // The inputs' order: x, the norm's two, the kernel.
  variable_list apply(variable_list&& given) override {
    require_once(norm.x);
    at::Tensor dy = std::move(given[0]);
    given.clear();
    if (!dy.defined()) return variable_list(4);
    const auto wants = [&](size_t input) { return task_should_compute_output(input); };
    const bool further = wants(0) || wants(1) || wants(2);
    const ConvBack::Gradients back = conv(as_picture(norm.rows(), norm.nhw), dy, further, wants(3));
    dy.reset();
    variable_list gradients(3);
    if (further) gradients = norm.back(as_rows(back.x));
    gradients.push_back(back.weight);
    return gradients;
  }
};

struct NormReluPoolNode final : torch::autograd::Node {
  RectifiedNorm norm;
  Window window;
  at::Tensor chosen;

  void release_variables() override {
    norm = {};
    chosen.reset();
  }

  variable_list apply(variable_list&& given) override {
    require_once(norm.x);
    at::Tensor dy = std::move(given[0]);
    given.clear();
    if (!dy.defined()) return variable_list(3);
    const at::Tensor d = max_pooled_back(as_rows(dy), chosen, norm.nhw, window);
    dy.reset();
    return norm.back(d);
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

bool fuses(const BatchNorm2d& norm, const Window& window, const at::Tensor& x) {
  return fuses(norm, x) && pools_rows(window, x.size(1));
}

bool fuses(const BatchNorm2d& norm, const Window& window, const Sketch& x) {
  return fuses(norm, x) && pools_rows(window, x.shape[0]);
}

bool fuses_relu(const BatchNorm2d& norm, const at::Tensor& x) { return fuses(norm, x) || fuses_on_device(norm, x); }

at::Tensor fused_norm_relu(const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& more) {
  if (!x.is_cpu()) return norm_relu_on_device(norm, x, more);
  const auto node = make_node<NormReluNode>();
  at::Tensor y;
  {
    const at::NoGradGuard no_grad;
    node->norm = {norm, x};
    y = node->norm.rows(more.defined() ? as_rows(more.detach()) : more);
    if (more.defined()) node->result = y;
    y = as_picture(y, node->norm.nhw);
  }
  std::vector<at::Tensor> inputs = {x, norm.weight, norm.bias};
  if (more.defined()) inputs.push_back(more);
  if (wants_gradient(inputs)) follow(inputs, node, y);
  return y;
}

at::Tensor fused_norm_relu_conv(const BatchNorm2d& norm, const Conv2d& conv, const at::Tensor& x) {
  const auto node = make_node<NormReluConvNode>();
  at::Tensor y;
  {
    const at::NoGradGuard no_grad;
    node->norm = {norm, x};
    const at::Tensor rectified = as_picture(node->norm.rows(), node->norm.nhw);
    node->conv = conv.back(rectified);
    y = conv(rectified);
  }
  const std::vector<at::Tensor> inputs = {x, norm.weight, norm.bias, conv.weight};
  if (wants_gradient(inputs)) follow(inputs, node, y);
  return y;
}

bool evaluates(const BatchNorm2d& norm, const at::Tensor& x) {
  return norm.is_fused() && !norm.is_training() && serves_rows(x, false) &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast) && norm.weight.size(0) % kColumns == 0;
}

at::Tensor evaluated(const Conv2d& conv, const BatchNorm2d& norm, const at::Tensor& x) {
  return conv.with_epilogue(x, {.norm = running_scales(norm), .rectified = false});
}

at::Tensor evaluated_relu(const Conv2d& conv, const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& more) {
  return conv.with_epilogue(x, {.norm = running_scales(norm), .more = more.defined() ? as_rows(more) : more});
}

Sketch fused_norm_relu_conv(const BatchNorm2d& norm, const Conv2d& conv, const Sketch& x) {
  const Sketch y = x.list->untaped([&] { return conv(norm(x)); });
  return x.list->add_step({.op = PassTape::Op::norm_convolution,
                           .reads = {x.value},
                           .weights = conv.weight.numel(),
                           .scratch = x.shape[0] * x.shape[1] * x.shape[2],
                           .workspace = conv.workspace(x)},
                          y.shape);
}

at::Tensor fused_norm_relu_max_pool(const BatchNorm2d& norm, const Window& window, const at::Tensor& x) {
  const auto node = make_node<NormReluPoolNode>();
  at::Tensor y;
  {
    const at::NoGradGuard no_grad;
    node->norm = {norm, x};
    node->window = window;
    const Pooled pooled = max_pooled(node->norm.x, node->norm.nhw, node->norm.scales, window);
    node->chosen = pooled.chosen;
    y = as_picture(pooled.rows, {x.size(0), window.outputs(x.size(2)), window.outputs(x.size(3))});
  }
  const std::vector<at::Tensor> inputs = {x, norm.weight, norm.bias};
  if (wants_gradient(inputs)) follow(inputs, node, y);
  return y;
}

Sketch fused_norm_relu_max_pool(const BatchNorm2d& norm, const Window& window, const Sketch& x,
                                const std::string& name) {
  const Sketch y = x.list->untaped([&] { return max_pool(norm(x), window, name); });
  return x.list->add_step({.op = PassTape::Op::norm_max_pool, .reads = {x.value}}, y.shape);
}

}  // namespace dtrain
