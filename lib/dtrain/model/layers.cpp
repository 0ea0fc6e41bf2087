#include "dtrain/model/layers.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <utility>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/model/graph_node.hpp"
#include "dtrain/model/pointwise.hpp"
#include "dtrain/model/row_products.hpp"
#include "dtrain/model/winograd.hpp"

namespace dtrain {

using torch::autograd::variable_list;

static int64_t convolved(int64_t size, const ConvShape& shape) {
  return (size + 2 * shape.padding - shape.kernel) / shape.stride + 1;
}

static void expect_channels(const Sketch& x, int64_t channels) {
  check(!x.shape.empty() && x.shape[0] == channels, "a layer gets as many channels as it was built for");
}

Conv2d::Conv2d(const ConvShape& shape) : shape_(shape) {
  weight = register_parameter("weight", at::empty({shape.out, shape.in, shape.kernel, shape.kernel}));
  if (shape.bias) bias = register_parameter("bias", at::empty({shape.out}));
}

// The lines of NHWC pictures as pictures of their own, and back; each copies only what does not lie so.
static at::Tensor lines_of(const at::Tensor& pictures) {
  const at::Tensor nhwc = pictures.permute({0, 2, 3, 1});
  return nhwc.reshape({-1, 1, nhwc.size(2), nhwc.size(3)}).permute({0, 3, 1, 2});
}
static at::Tensor pictures_of(const at::Tensor& lines, int64_t count) {
  const at::Tensor nhwc = lines.permute({0, 2, 3, 1}).contiguous();
  return nhwc.view({count, -1, nhwc.size(2), nhwc.size(3)}).permute({0, 3, 1, 2});
}

ConvWay Conv2d::way_of(const at::Tensor& x) const {
  if (!is_fused() || x.dim() != 4 || x.size(1) != shape_.in) return ConvWay::library;
  if (can_go_by_tiles() && winograd_pays(x, shape_.out)) return ConvWay::tiles;
  if (can_be_product() && pointwise_serves(x, shape_.out)) return ConvWay::product;
  const bool reads_all = shape_.kernel == 1 && shape_.stride == 1 && shape_.padding == 0;
  const bool in_rows = serves_rows(x, true) && x.is_contiguous(at::MemoryFormat::ChannelsLast);
  return reads_all && in_rows ? ConvWay::lines : ConvWay::library;
}

namespace {

// The inputs' order: x, the kernel, the bias if there is one.
struct ConvNode final : torch::autograd::Node {
  at::Tensor x;
  ConvBack back;

  void release_variables() override {
    x.reset();
    back = {};
  }

  variable_list apply(variable_list&& given) override {
    require_once(x);
    variable_list gradients(num_outputs());
    if (!given[0].defined()) return gradients;
    const bool of_bias = gradients.size() > 2 && task_should_compute_output(2);
    const ConvBack::Gradients all =
        back(x, given[0], task_should_compute_output(0), task_should_compute_output(1), of_bias);
    gradients[0] = all.x;
    gradients[1] = all.weight;
    if (of_bias) gradients[2] = all.bias;
    return gradients;
  }
};

bool is_ours(ConvWay way) { return way == ConvWay::product || way == ConvWay::tiles; }

}  // namespace

at::Tensor Conv2d::by_library(const at::Tensor& x, ConvWay way) const {
  const std::array<int64_t, 2> stride{shape_.stride, shape_.stride}, padding{shape_.padding, shape_.padding};
  const auto convolved = [&](const at::Tensor& pictures) {
    return at::conv2d(pictures, weight, bias.defined() ? std::optional(bias) : std::nullopt, stride, padding);
  };
  return way == ConvWay::lines ? pictures_of(convolved(lines_of(x)), x.size(0)) : convolved(x);
}

at::Tensor Conv2d::by_ours(const at::Tensor& x, ConvWay way, const Epilogue& epilogue) const {
  const at::AutoGradMode without_history(false);
  return way == ConvWay::product ? pointwise(x, weight, shape_.stride, epilogue) : winograd(x, weight, bias, epilogue);
}

at::Tensor Conv2d::operator()(const at::Tensor& x) const {
  const ConvWay way = way_of(x);
  if (!is_ours(way)) return by_library(x, way);
  const at::Tensor y = by_ours(x, way, {});
  std::vector<at::Tensor> inputs = {x, weight};
  if (bias.defined()) inputs.push_back(bias);
  if (!wants_gradient(inputs)) return y;
  const auto node = make_node<ConvNode>();
  node->x = x.detach();
  node->back = {weight.detach(), shape_, way};
  follow(inputs, node, y);
  return y;
}

at::Tensor Conv2d::with_epilogue(const at::Tensor& x, const Epilogue& epilogue) const {
  const ConvWay way = way_of(x);
  if (is_ours(way)) return by_ours(x, way, epilogue);
  const at::AutoGradMode without_history(false);
  const at::Tensor y = by_library(x, way);
  if (!epilogue.any()) return y;
  const at::Tensor rows = as_rows(y);
  apply_in_place(epilogue, rows);
  return as_picture(rows, nhw_of(y));
}

ConvBack Conv2d::back(const at::Tensor& x) const {
  check(!bias.defined(), "a convolution inside another node has no bias");
  return {weight.detach(), shape_, way_of(x)};
}

ConvBack::Gradients ConvBack::operator()(const at::Tensor& x, const at::Tensor& given, bool of_x, bool of_weight,
                                         bool of_bias) const {
  Gradients gradients;
  const bool of_parameters = of_weight || of_bias;
  if (way == ConvWay::tiles) {
    const at::Tensor dy = given.contiguous(at::MemoryFormat::ChannelsLast);
    if (of_x) gradients.x = winograd_input_back(dy, weight);
    if (!of_parameters) return gradients;
    WinogradGradients back = winograd_kernel_back(x, dy, of_bias);
    gradients.weight = std::move(back.kernel);
    gradients.bias = std::move(back.bias);
    return gradients;
  }
  check(!of_bias, "the way back to a bias is that of the convolution's own node");
  if (way == ConvWay::product) {
    if (of_x) gradients.x = pointwise_input_back(given, weight, shape.stride, x.sizes());
    if (of_weight) gradients.weight = pointwise_kernel_back(x, given, shape.stride);
    return gradients;
  }
  const bool by_lines = way == ConvWay::lines;
  const std::array<int64_t, 2> stride{shape.stride, shape.stride}, padding{shape.padding, shape.padding},
      dilation{1, 1}, none{0, 0};
  auto [dx, dw, db] =
      at::convolution_backward(by_lines ? lines_of(given) : given, by_lines ? lines_of(x) : x, weight, std::nullopt,
                               stride, padding, dilation, false, none, 1, {of_x, of_weight, false});
  return {of_x && by_lines ? pictures_of(dx, x.size(0)) : dx, dw, {}};
}

static std::vector<ForwardGraph::Attribute> window_of(const ConvShape& shape) {
  return {{"kernel_shape", std::vector{shape.kernel, shape.kernel}},
          {"strides", std::vector{shape.stride, shape.stride}},
          {"pads", std::vector<int64_t>(4, shape.padding)}};
}

GraphValue Conv2d::operator()(const GraphValue& x) const {
  return x.graph->add("Conv", {x}, {weight, bias}, window_of(shape_));
}

Sketch Conv2d::operator()(const Sketch& x) const {
  expect_channels(x, shape_.in);
  const int64_t high = convolved(x.shape[1], shape_), wide = convolved(x.shape[2], shape_), space = workspace(x);
  const bool copies = can_be_product() && shape_.stride > 1 && space > 0;  // the pixels that it reads
  const Sketch y = x.list->add_step({.op = PassTape::Op::convolution,
                                     .reads = {x.value},
                                     .weights = weight.numel(),
                                     .scratch = copies ? shape_.in * high * wide : 0,
                                     .workspace = space},
                                    {shape_.out, high, wide});
  x.list->add(*this, "conv", y.shape, 2 * weight.numel() * y.shape[1] * y.shape[2]);
  return y;
}

int64_t Conv2d::workspace(const Sketch& x) const {
  if (!is_fused() || !x.list->fused()) return 0;
  if (can_go_by_tiles()) return winograd_workspace(shape_.in, shape_.out, x.shape[1], x.shape[2]);
  return can_be_product() ? pointwise_workspace(shape_.in, shape_.out) : 0;
}

ConvTranspose2d::ConvTranspose2d(const ConvShape& shape) : shape_(shape) {
  check(shape.padding == 0, "a transposed convolution here has no padding");
  weight = register_parameter("weight", at::empty({shape.in, shape.out, shape.kernel, shape.kernel}));
  if (shape.bias) bias = register_parameter("bias", at::empty({shape.out}));
}

at::Tensor ConvTranspose2d::operator()(const at::Tensor& x) const {
  const std::array<int64_t, 2> stride{shape_.stride, shape_.stride};
  return at::conv_transpose2d(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, stride);
}

Sketch ConvTranspose2d::operator()(const Sketch& x) const {
  expect_channels(x, shape_.in);
  const auto grown = [&](int64_t size) { return (size - 1) * shape_.stride + shape_.kernel; };
  Sketch y = x.through(PassTape::Op::convolution, {shape_.out, grown(x.shape[1]), grown(x.shape[2])}, weight.numel());
  x.list->add(*this, "conv_transpose", y.shape, 2 * weight.numel() * x.shape[1] * x.shape[2]);
  return y;
}

GraphValue ConvTranspose2d::operator()(const GraphValue& x) const {
  return x.graph->add("ConvTranspose", {x}, {weight, bias}, window_of(shape_));
}

BatchNorm2d::BatchNorm2d(int64_t channels) {
  weight = register_parameter("weight", at::ones({channels}));
  bias = register_parameter("bias", at::zeros({channels}));
  running_mean = register_buffer("running_mean", at::zeros({channels}));
  running_var = register_buffer("running_var", at::ones({channels}));
  num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
}

at::Tensor BatchNorm2d::operator()(const at::Tensor& x) const {
  if (is_training()) num_batches_tracked.add_(1);
  return at::batch_norm(x, weight, bias, running_mean, running_var, is_training(), kMomentum, kEpsilon,
                        /*cudnn_enabled=*/true);
}

GraphValue BatchNorm2d::operator()(const GraphValue& x) const {
  return x.graph->add("BatchNormalization", {x}, {weight, bias, running_mean, running_var},
                      {{"epsilon", static_cast<float>(kEpsilon)}});
}

Sketch BatchNorm2d::operator()(const Sketch& x) const {
  expect_channels(x, weight.numel());
  x.list->add(*this, "norm", x.shape);
  return x.through(PassTape::Op::norm, x.shape);
}

Linear::Linear(int64_t in, int64_t out) {
  weight = register_parameter("weight", at::empty({out, in}));
  bias = register_parameter("bias", at::empty({out}));
}

at::Tensor Linear::operator()(const at::Tensor& x) const { return at::linear(x, weight, bias); }

GraphValue Linear::operator()(const GraphValue& x) const {
  return x.graph->add("Gemm", {x}, {weight, bias}, {{"transB", int64_t{1}}});
}

Sketch Linear::operator()(const Sketch& x) const {
  expect_channels(x, weight.size(1));
  Sketch y = x.through(PassTape::Op::linear, {weight.size(0)}, weight.numel());
  x.list->add(*this, "linear", y.shape, 2 * weight.numel());
  return y;
}

}  // namespace dtrain
