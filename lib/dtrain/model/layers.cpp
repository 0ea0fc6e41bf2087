#include "dtrain/model/layers.hpp"

#include <ATen/ATen.h>

#include <array>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/model/graph_node.hpp"
#include "dtrain/model/row_passes.hpp"
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

bool Conv2d::goes_by_lines(const at::Tensor& x) const {
  const bool pointwise = shape_.kernel == 1 && shape_.stride == 1 && shape_.padding == 0;
  return is_fused() && pointwise && serves_rows(x, true) && x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

bool Conv2d::goes_by_tiles(const at::Tensor& x) const {
  return is_fused() && can_go_by_tiles() && x.dim() == 4 && x.size(1) == shape_.in && winograd_pays(x, shape_.out);
}

namespace {

// A convolution by tiles. The inputs' order: x, the kernel, the bias if there is one.
struct TiledConvNode final : torch::autograd::Node {
  at::Tensor x, weight;

  void release_variables() override {
    x.reset();
    weight.reset();
  }

  variable_list apply(variable_list&& given) override {
    require_once(x);
    variable_list gradients(num_outputs());
    if (!given[0].defined()) return gradients;
    const at::Tensor dy = given[0].contiguous(at::MemoryFormat::ChannelsLast);
    const bool of_bias = gradients.size() > 2 && task_should_compute_output(2);
    if (task_should_compute_output(0)) gradients[0] = winograd_input_back(dy, weight);
    if (!of_bias && !task_should_compute_output(1)) return gradients;
    const WinogradGradients back = winograd_kernel_back(x, dy, of_bias);
    gradients[1] = back.kernel;
    if (of_bias) gradients[2] = back.bias;
    return gradients;
  }
};

at::Tensor by_tiles(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor y = winograd(x.detach(), weight.detach(), bias.defined() ? bias.detach() : bias);
  std::vector<at::Tensor> inputs = {x, weight};
  if (bias.defined()) inputs.push_back(bias);
  if (!wants_gradient(inputs)) return y;
  const auto node = make_node<TiledConvNode>();
  node->x = x.detach();
  node->weight = weight.detach();
  follow(inputs, node, y);
  return y;
}

}  // namespace

at::Tensor Conv2d::operator()(const at::Tensor& x) const {
  if (goes_by_tiles(x)) return by_tiles(x, weight, bias);
  const std::array<int64_t, 2> stride{shape_.stride, shape_.stride}, padding{shape_.padding, shape_.padding};
  const auto convolved = [&](const at::Tensor& pictures) {
    return at::conv2d(pictures, weight, bias.defined() ? std::optional(bias) : std::nullopt, stride, padding);
  };
  return goes_by_lines(x) ? pictures_of(convolved(lines_of(x)), x.size(0)) : convolved(x);
}

ConvBack Conv2d::back(const at::Tensor& x) const {
  check(!bias.defined(), "a convolution inside another node has no bias");
  return {weight.detach(), shape_, goes_by_lines(x), goes_by_tiles(x)};
}

std::pair<at::Tensor, at::Tensor> ConvBack::operator()(const at::Tensor& x, const at::Tensor& dy, bool of_x,
                                                       bool of_weight) const {
  if (by_tiles) {
    const at::Tensor given = dy.contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor dx = of_x ? winograd_input_back(given, weight) : at::Tensor();
    return {dx, of_weight ? winograd_kernel_back(x, given, false).kernel : at::Tensor()};
  }
  const std::array<int64_t, 2> stride{shape.stride, shape.stride}, padding{shape.padding, shape.padding},
      dilation{1, 1}, none{0, 0};
  auto [dx, dw, db] =
      at::convolution_backward(by_lines ? lines_of(dy) : dy, by_lines ? lines_of(x) : x, weight, std::nullopt, stride,
                               padding, dilation, false, none, 1, {of_x, of_weight, false});
  return {of_x && by_lines ? pictures_of(dx, x.size(0)) : dx, dw};
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
  const Sketch y = x.list->add_step(
      {.op = PassTape::Op::convolution, .reads = {x.value}, .weights = weight.numel(), .workspace = workspace(x)},
      {shape_.out, convolved(x.shape[1], shape_), convolved(x.shape[2], shape_)});
  x.list->add(*this, "conv", y.shape, 2 * weight.numel() * y.shape[1] * y.shape[2]);
  return y;
}

int64_t Conv2d::workspace(const Sketch& x) const {
  return is_fused() && x.list->fused() && can_go_by_tiles()
             ? winograd_workspace(shape_.in, shape_.out, x.shape[1], x.shape[2])
             : 0;
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
