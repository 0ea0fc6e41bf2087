#include "dtrain/model/device_slab.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool2d_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>

#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/model/device_norms.hpp"
#include "dtrain/model/graph_node.hpp"
#include "dtrain/model/precision.hpp"
#include "dtrain/model/row_passes.hpp"

namespace dtrain {

using torch::autograd::variable_list;

/// The values of a block, and on the way back their gradients.
struct DeviceChannels {
  std::vector<int64_t> nhw;
  bool training = true;
  int64_t filled = 0;              // channels that are there
  at::Tensor values, gradients;    // [pixels, channels]; gradients: G
  at::Tensor mean, variance;       // [channels], of the batch
  at::Tensor sum_g, sum_g_x_hat;   // [channels]: Σ γ·dβ, Σ γ·dγ
  at::Tensor ones;                 // [channels]
  const NormMath* math = nullptr;  // of the block's norms

  void append(const at::Tensor& rows) {
    const int64_t width = rows.size(1);
    values.narrow(1, filled, width).copy_(rows);
    filled += width;
  }

  // Those of channels that norms have not asked for yet.
  void find_statistics() {
    if (known_ == filled) return;
    const at::Tensor fresh = values.narrow(1, known_, filled - known_);
    math->statistics(norm_shape(fresh), norm_input(fresh), mean.mutable_data_ptr<float>() + known_,
                     variance.mutable_data_ptr<float>() + known_, {});
    known_ = filled;
  }

  // Over all channels so far.
  DeviceNorm norm(const BatchNorm2d& of) {
    const at::Tensor all = values.narrow(1, 0, filled);
    if (!training) return {of, all};
    math = of.norms();
    find_statistics();
    return {of, all, mean.narrow(0, 0, filled), variance.narrow(0, 0, filled)};
  }

  // G from a norm over all of its channels: the first sets it, the others add to it.
  DeviceNorm::Gradients take(const DeviceNorm& from, const at::Tensor& dy) {
    const bool first = !gradients.defined();
    if (first) {
      gradients = at::empty_like(values);
      sum_g = at::empty_like(mean);
      sum_g_x_hat = at::empty_like(mean);
      ones = at::ones_like(mean);
    }
    return from.rectify_back(dy, {},
                             {first ? NormGradient::Kind::weighted : NormGradient::Kind::weighted_sum,
                              norm_output(gradients.narrow(1, 0, from.x.size(1))),
                              sum_g_x_hat.mutable_data_ptr<float>(), sum_g.mutable_data_ptr<float>()});
  }

  // Of channels whose readers have all been reached: (G − mean(G) − x̂·mean(x̂·G))/σ.
  at::Tensor own_gradient(int64_t first, int64_t count) const {
    const auto of = [&](const at::Tensor& all) { return all.narrow(0, first, count); };
    DeviceNorm unit;
    unit.math = math;
    unit.x = values.narrow(1, first, count);
    unit.gamma = unit.beta = of(ones);
    unit.mean = of(mean);
    unit.variance = of(variance);
    const at::Tensor dx = at::empty({values.size(0), count}, values.options());
    unit.centre_back(gradients.narrow(1, first, count), true, {of(sum_g_x_hat), of(sum_g)}, dx);
    return dx;
  }

 private:
  int64_t known_ = 0;  // channels whose statistics are there
};

namespace {

/// A part of a block on the way back. Its input or output is a token where it is not the block's own.
struct ChannelsNode : torch::autograd::Node {
  std::shared_ptr<DeviceChannels> channels;
  DeviceNorm norm;    // over the channels so far
  at::Tensor kernel;  // of the product behind it [out, channels], of the values' kind

  void release_variables() override {
    channels.reset();
    norm = {};
    kernel.reset();
  }
  DeviceChannels& shared() const {
    check(channels != nullptr, "a block goes back once");
    return *channels;
  }
  // The gradient of the kernel as a parameter.
  at::Tensor kernel_back(const at::Tensor& dy, const at::Tensor& rows) const {
    return at::mm(dy.t(), rows).to(at::kFloat).view({kernel.size(0), kernel.size(1), 1, 1});
  }
};

struct EnterDeviceNode final : ChannelsNode {
  int64_t width = 0;
  variable_list apply(variable_list&&) override { return {as_picture(shared().own_gradient(0, width), shared().nhw)}; }
};

struct DeviceLayerNode final : ChannelsNode {
  DeviceNorm norm2;  // over conv1's result
  ConvBack conv2;

  void release_variables() override {
    ChannelsNode::release_variables();
    norm2 = {};
    conv2 = {};
  }

  variable_list apply(variable_list&& given) override {
    DeviceChannels& c = shared();
    const int64_t first = kernel.size(1), growth = conv2.weight.size(0);
    const ConvBack::Gradients back =
        conv2(as_picture(norm2.rectified(), c.nhw), as_picture(c.own_gradient(first, growth), c.nhw), true,
              task_should_compute_output(6));
    const at::Tensor gradient = as_rows(back.x);
    const DeviceNorm::Gradients sums2 = norm2.rectify_back(gradient, {}, {});
    norm2.centre_back(gradient, false, sums2, gradient);
    const at::Tensor d_kernel = task_should_compute_output(3) ? kernel_back(gradient, norm.rectified()) : at::Tensor();
    const DeviceNorm::Gradients sums = c.take(norm, at::mm(gradient, kernel));
    return {given[0],
            sums.gamma,
            sums.beta,
            d_kernel,
            sums2.gamma,
            sums2.beta,
            back.weight.defined() ? back.weight.to(at::kFloat) : back.weight};
  }
};

struct DeviceTransitionNode final : ChannelsNode {
  variable_list apply(variable_list&& given) override {
    DeviceChannels& c = shared();
    const at::Tensor gradient = as_rows(given[0]), rectified = as_picture(norm.rectified(), c.nhw);
    const at::Tensor pooled = at::avg_pool2d(rectified, {2, 2}, {2, 2});
    const at::Tensor d_kernel = task_should_compute_output(3) ? kernel_back(gradient, as_rows(pooled)) : at::Tensor();
    const at::Tensor d_pooled = as_picture(at::mm(gradient, kernel), nhw_of(pooled));
    const at::Tensor dy =
        as_rows(at::avg_pool2d_backward(d_pooled, rectified, {2, 2}, {2, 2}, {0, 0}, false, true, std::nullopt));
    const DeviceNorm::Gradients sums = c.take(norm, dy);
    return {at::empty({1}, norm.gamma.options()), sums.gamma, sums.beta, d_kernel};
  }
};

struct DeviceLastNode final : ChannelsNode {
  variable_list apply(variable_list&& given) override {
    const DeviceNorm::Gradients sums = shared().take(norm, as_rows(given[0]));
    return {at::empty({1}, norm.gamma.options()), sums.gamma, sums.beta};
  }
};

at::Tensor kernel_matrix(const Conv2d& conv, const at::Tensor& values) {
  return conv.weight.detach().view({conv.weight.size(0), conv.weight.size(1)}).to(values.scalar_type());
}

}  // namespace

bool DeviceSlab::serves(const BatchNorm2d& norm, const at::Tensor& x) {
  return fuses_on_device(norm, x) && x.scalar_type() == autocast_type(x.device().type()).value_or(at::kFloat);
}

DeviceSlab::DeviceSlab(const at::Tensor& x, int64_t channels, bool training)
    : channels_(std::make_shared<DeviceChannels>()) {
  const at::TensorOptions floats = x.options().dtype(at::kFloat).requires_grad(false);
  token_ = at::empty({1}, floats);
  {
    const at::NoGradGuard no_grad;
    DeviceChannels& c = *channels_;
    c.nhw = nhw_of(x);
    c.training = training;
    c.values = at::empty({x.numel() / x.size(1), channels}, x.options().requires_grad(false));
    c.mean = at::empty({channels}, floats);
    c.variance = at::empty({channels}, floats);
    c.append(as_rows(x.detach()));
  }
  if (!wants_gradient({x})) return;
  const auto node = make_node<EnterDeviceNode>();
  node->channels = channels_;
  node->width = x.size(1);
  follow({x}, node, token_);
}

void DeviceSlab::add_layer(const BatchNorm2d& norm1, const Conv2d& conv1, const BatchNorm2d& norm2,
                           const Conv2d& conv2) {
  const auto node = make_node<DeviceLayerNode>();
  {
    const at::NoGradGuard no_grad;
    DeviceChannels& c = *channels_;
    node->channels = channels_;
    node->norm = c.norm(norm1);
    node->kernel = kernel_matrix(conv1, c.values);
    node->norm2 = DeviceNorm(norm2, at::mm(node->norm.rectified(), node->kernel.t()));
    const at::Tensor rectified = as_picture(node->norm2.rectified(), c.nhw);
    node->conv2 = conv2.back(rectified);
    node->conv2.weight = node->conv2.weight.to(c.values.scalar_type());
    c.append(as_rows(conv2(rectified)));
  }
  const std::vector<at::Tensor> inputs = {token_,       norm1.weight, norm1.bias,  conv1.weight,
                                          norm2.weight, norm2.bias,   conv2.weight};
  if (!wants_gradient(inputs)) return;
  const at::Tensor next = at::empty({1}, token_.options());
  follow(inputs, node, next);
  token_ = next;
}

at::Tensor DeviceSlab::transition(const BatchNorm2d& norm, const Conv2d& conv) {
  const auto node = make_node<DeviceTransitionNode>();
  at::Tensor result;
  {
    const at::NoGradGuard no_grad;
    DeviceChannels& c = *channels_;
    node->channels = channels_;
    node->norm = c.norm(norm);
    node->kernel = kernel_matrix(conv, c.values);
    const at::Tensor pooled = at::avg_pool2d(as_picture(node->norm.rectified(), c.nhw), {2, 2}, {2, 2});
    result = as_picture(at::mm(as_rows(pooled), node->kernel.t()), nhw_of(pooled));
  }
  const std::vector<at::Tensor> inputs = {token_, norm.weight, norm.bias, conv.weight};
  if (wants_gradient(inputs)) follow(inputs, node, result);
  return result;
}

at::Tensor DeviceSlab::normalised(const BatchNorm2d& norm) {
  const auto node = make_node<DeviceLastNode>();
  at::Tensor result;
  {
    const at::NoGradGuard no_grad;
    node->channels = channels_;
    node->norm = channels_->norm(norm);
    result = as_picture(node->norm.rectified(), channels_->nhw);
  }
  const std::vector<at::Tensor> inputs = {token_, norm.weight, norm.bias};
  if (wants_gradient(inputs)) follow(inputs, node, result);
  return result;
}

}  // namespace dtrain
