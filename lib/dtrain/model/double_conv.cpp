#include "dtrain/model/double_conv.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "dtrain/model/conv_passes.hpp"
#include "dtrain/model/functions.hpp"
#include "dtrain/model/graph_node.hpp"
#include "dtrain/model/sketch.hpp"

namespace dtrain {

using torch::autograd::variable_list;

namespace {

// Outputs up to which this is the faster way, with AVX2 as with AVX-512 (docs/performance.md).
constexpr int64_t kMostChannels = 16;

// What one convolution gave, and the norm behind it, with the statistics of its batch.
struct Half {
  at::Tensor kernel, rows, gamma;
  NormScales scales;
};

Half half_of(const Conv2d& conv, const BatchNorm2d& norm, const ConvInput& x, at::IntArrayRef nhw) {
  const ConvOutput y = convolved(x, nhw, conv.weight.detach());
  move_statistics(norm, y.mean, y.variance, y.rows.size(0));
  return {conv.weight.detach(), y.rows, norm.weight.detach(), scales_of(norm, y.mean, y.variance)};
}

struct DoubleConvNode final : torch::autograd::Node {
  std::vector<at::Tensor> x;  // parts
  Half one, two;
  std::vector<int64_t> nhw;

  void release_variables() override {
    x.clear();
    one = two = {};
  }

  // The inputs' order: the kernel and the norm's two, twice; the parts of x. What is no longer needed goes before more
  // is made.
  variable_list apply(variable_list&& given) override {
    require_once(two.rows);
    variable_list gradients(num_outputs());
    if (!given[0].defined()) return gradients;
    at::Tensor dy = as_rows(given[0]);
    given.clear();
    const int64_t pixels = dy.size(0);
    const NormCentre two_back = norm_centre(norm_sums(dy, two.rows, two.scales, nhw), two.scales, two.gamma, pixels);
    gradients[4] = two_back.gradients.weight;
    gradients[5] = two_back.gradients.bias;
    const bool of_x = wants_from(6), further = of_x || wants(0) || wants(1) || wants(2);
    if (!further && !wants(3)) return gradients;
    const ConvGradients second = convolved_back({{one.rows}, &one.scales}, {dy, two.rows, &two.scales, &two_back}, nhw,
                                                two.kernel, further, wants(3));
    gradients[3] = second.kernel;
    if (!further) return gradients;
    two = {};
    dy.reset();
    const NormCentre one_back = norm_centre(second.norm, one.scales, one.gamma, pixels);
    gradients[1] = one_back.gradients.weight;
    gradients[2] = one_back.gradients.bias;
    if (!of_x && !wants(0)) return gradients;
    const ConvGradients first =
        convolved_back({x}, {second.input.front(), one.rows, &one.scales, &one_back}, nhw, one.kernel, of_x, wants(0));
    gradients[0] = first.kernel;
    for (size_t i = 0; i < first.input.size(); ++i) gradients[6 + i] = as_picture(first.input[i], nhw);
    return gradients;
  }

 private:
  bool wants(size_t input) const { return task_should_compute_output(input); }
  bool wants_from(size_t input) const {
    for (; input < num_outputs(); ++input)
      if (wants(input)) return true;
    return false;
  }
};

// Parts are read one by one, which is fast for a multiple of so many channels of each.
constexpr int64_t kPartChannels = 8;
template <class X, class Channels>
bool can_stay_apart(const Parts<X>& x, const Channels& channels) {
  return x.size() == 1 || std::ranges::all_of(x, [&](const X& part) { return channels(part) % kPartChannels == 0; });
}

std::vector<at::Tensor> rows_of_parts(const Parts<at::Tensor>& x) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& part : x) rows.push_back(as_rows(part.detach()));
  return rows;
}

PooledMaps<at::Tensor> evaluated(const DoubleConvLayers& layers, const Parts<at::Tensor>& x, bool with_pooled) {
  const at::NoGradGuard no_grad;
  const std::vector<int64_t> nhw = nhw_of(x.front());
  const auto rectified = [](const Conv2d& conv, const BatchNorm2d& norm) {
    return RectifiedConv{conv.weight.detach(), running_scales(norm)};
  };
  const EvaluatedPair y = evaluated_pair({rows_of_parts(x)}, nhw, rectified(layers.conv1, layers.norm1),
                                         rectified(layers.conv2, layers.norm2), with_pooled);
  return {as_picture(y.rows, nhw), with_pooled ? as_picture(y.pooled, {nhw[0], nhw[1] / 2, nhw[2] / 2}) : at::Tensor{}};
}

}  // namespace

bool fuses(const DoubleConvLayers& layers, const Parts<at::Tensor>& x) {
  const int64_t out = layers.conv1.weight.size(0);
  const std::vector<int64_t> nhw = nhw_of(x.front());
  const bool training = layers.norm1.is_training();
  int64_t channels = 0;
  for (const at::Tensor& part : x) channels += part.size(1);
  return layers.conv1.is_fused() && out <= kMostChannels && training == layers.norm2.is_training() &&
         can_stay_apart(x, [](const at::Tensor& part) { return part.size(1); }) &&
         channels == layers.conv1.weight.size(1) && fills_rows(out, nhw[0] * nhw[1] * nhw[2] * out) &&
         std::ranges::all_of(x, [&](const at::Tensor& part) {
           return serves_rows(part, training) && part.scalar_type() == x.front().scalar_type() && nhw_of(part) == nhw &&
                  part.is_contiguous(at::MemoryFormat::ChannelsLast);
         });
}

bool fuses(const DoubleConvLayers& layers, const Parts<Sketch>& x) {
  const int64_t out = layers.conv1.weight.size(0);
  const std::vector<int64_t>& shape = x.front().shape;
  return layers.conv1.is_fused() && out <= kMostChannels && x.front().list->fused() &&
         can_stay_apart(x, [](const Sketch& part) { return part.shape[0]; }) &&
         fills_rows(out, shape[1] * shape[2] * out);
}

at::Tensor fused_double_conv(const DoubleConvLayers& layers, const Parts<at::Tensor>& x) {
  if (!layers.norm1.is_training()) return evaluated(layers, x, false).maps;
  const auto node = make_node<DoubleConvNode>();
  at::Tensor y;
  {
    const at::NoGradGuard no_grad;
    node->nhw = nhw_of(x.front());
    node->x = rows_of_parts(x);
    node->one = half_of(layers.conv1, layers.norm1, {node->x}, node->nhw);
    node->two = half_of(layers.conv2, layers.norm2, {{node->one.rows}, &node->one.scales}, node->nhw);
    const at::Tensor& rows = node->two.rows;
    y = as_picture(normalised_rows(rows, rows.size(1), node->two.scales), node->nhw);
  }
  std::vector<at::Tensor> inputs = {layers.conv1.weight, layers.norm1.weight, layers.norm1.bias,
                                    layers.conv2.weight, layers.norm2.weight, layers.norm2.bias};
  inputs.insert(inputs.end(), x.begin(), x.end());
  if (wants_gradient(inputs)) follow(inputs, node, y);
  return y;
}

Sketch fused_double_conv(const DoubleConvLayers& layers, const Parts<Sketch>& x) {
  LayerList& list = *x.front().list;
  PassTape::Step step{.op = PassTape::Op::convolution, .reads = {}, .weights = layers.conv1.weight.numel()};
  for (const Sketch& part : x) step.reads.push_back(part.value);
  const Sketch made = list.untaped([&] {
    const Sketch whole = joined(x);
    step.workspace = layers.conv1.workspace(whole);
    return layers.conv1(whole);
  });
  const Sketch first = list.add_step(step, made.shape);
  list.untaped([&] { return layers.norm1(first); });
  const Sketch y = layers.norm2(layers.conv2(first));
  y.list->change(PassTape::Op::relu_of_norm, {y});
  return y;
}

bool evaluates(const DoubleConvLayers& layers, const at::Tensor& x) {
  return !layers.norm1.is_training() && x.size(2) > 1 && x.size(3) > 1 && fuses(layers, Parts<at::Tensor>{x});
}

PooledMaps<at::Tensor> evaluated_double_conv(const DoubleConvLayers& layers, const at::Tensor& x) {
  return evaluated(layers, {x}, true);
}

}  // namespace dtrain
