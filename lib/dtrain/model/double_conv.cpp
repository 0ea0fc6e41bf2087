#include "dtrain/model/double_conv.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "dtrain/model/conv_passes.hpp"
#include "dtrain/model/graph_node.hpp"
#include "dtrain/model/sketch.hpp"

namespace dtrain {

using torch::autograd::variable_list;

namespace {

// Outputs up to which this is the faster way, with AVX2 as with AVX-512 (docs/performance.md).
constexpr int64_t kMostChannels = 16;

// What one convolution gave, and the norm behind it.
struct Half {
  at::Tensor kernel, rows, gamma;
  NormScales scales;
};

Half half_of(const Conv2d& conv, const BatchNorm2d& norm, const ConvInput& x, at::IntArrayRef nhw) {
  Half half{conv.weight.detach(), {}, norm.weight.detach(), {}};
  const ConvOutput y = convolved(x, nhw, half.kernel, norm.is_training());
  half.rows = y.rows;
  if (norm.is_training()) {
    move_statistics(norm, y.mean, y.variance, y.rows.size(0));
    half.scales = scales_of(norm, y.mean, y.variance);
  } else {
    half.scales = running_scales(norm);
  }
  return half;
}

struct DoubleConvNode final : torch::autograd::Node {
  at::Tensor x;
  Half one, two;
  std::vector<int64_t> nhw;

  void release_variables() override {
    x.reset();
    one = two = {};
  }

  // The inputs' order: x; the kernel and the norm's two, twice. What is no longer needed goes before more is made.
  variable_list apply(variable_list&& given) override {
    require_once(x);
    variable_list gradients(7);
    if (!given[0].defined()) return gradients;
    at::Tensor dy = as_rows(given[0]);
    given.clear();
    const int64_t pixels = dy.size(0);
    const NormCentre two_back = norm_centre(norm_sums(dy, two.rows, two.scales, nhw), two.scales, two.gamma, pixels);
    gradients[5] = two_back.gradients.weight;
    gradients[6] = two_back.gradients.bias;
    const bool further = wants(0) || wants(1) || wants(2) || wants(3);
    if (!further && !wants(4)) return gradients;
    const ConvGradients second = convolved_back({one.rows, &one.scales}, {dy, two.rows, &two.scales, &two_back}, nhw,
                                                two.kernel, further, wants(4));
    gradients[4] = second.kernel;
    if (!further) return gradients;
    two = {};
    dy.reset();
    const NormCentre one_back = norm_centre(second.norm, one.scales, one.gamma, pixels);
    gradients[2] = one_back.gradients.weight;
    gradients[3] = one_back.gradients.bias;
    if (!wants(0) && !wants(1)) return gradients;
    const ConvGradients first =
        convolved_back({x}, {second.input, one.rows, &one.scales, &one_back}, nhw, one.kernel, wants(0), wants(1));
    gradients[1] = first.kernel;
    if (first.input.defined()) gradients[0] = as_picture(first.input, nhw);
    return gradients;
  }

 private:
  bool wants(size_t input) const { return task_should_compute_output(input); }
};

}  // namespace

bool fuses(const DoubleConvLayers& layers, const at::Tensor& x) {
  const int64_t out = layers.conv1.weight.size(0);
  const bool training = layers.norm1.is_training();
  return layers.conv1.is_fused() && out <= kMostChannels && training == layers.norm2.is_training() &&
         serves_rows(x, training) && x.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         fills_rows(out, x.numel() / x.size(1) * out);
}

bool fuses(const DoubleConvLayers& layers, const Sketch& x) {
  const int64_t out = layers.conv1.weight.size(0);
  return layers.conv1.is_fused() && out <= kMostChannels && x.list->fused() &&
         fills_rows(out, x.shape[1] * x.shape[2] * out);
}

at::Tensor fused_double_conv(const DoubleConvLayers& layers, const at::Tensor& x) {
  const std::vector<at::Tensor> inputs = {x,
                                          layers.conv1.weight,
                                          layers.norm1.weight,
                                          layers.norm1.bias,
                                          layers.conv2.weight,
                                          layers.norm2.weight,
                                          layers.norm2.bias};
  const bool back = wants_gradient(inputs);
  const auto node = make_node<DoubleConvNode>();
  at::Tensor y;
  {
    const at::NoGradGuard no_grad;
    node->nhw = {x.size(0), x.size(2), x.size(3)};
    node->x = as_rows(x.detach());
    node->one = half_of(layers.conv1, layers.norm1, {node->x}, node->nhw);
    const ConvInput between{node->one.rows, &node->one.scales};
    if (back || layers.norm2.is_training()) {
      node->two = half_of(layers.conv2, layers.norm2, between, node->nhw);
      const at::Tensor& rows = node->two.rows;
      y = normalised_rows(rows, rows.size(1), node->two.scales);
    } else {
      y = convolved_and_rectified(between, node->nhw, layers.conv2.weight.detach(), running_scales(layers.norm2));
    }
    y = as_picture(y, node->nhw);
  }
  if (back) follow(inputs, node, y);
  return y;
}

Sketch fused_double_conv(const DoubleConvLayers& layers, const Sketch& x) {
  const Sketch first = layers.conv1(x);
  first.list->untaped([&] { return layers.norm1(first); });
  const Sketch y = layers.norm2(layers.conv2(first));
  y.list->change(PassTape::Op::relu_of_norm, {y});
  return y;
}

}  // namespace dtrain
