#include "dtrain/model/device_norms.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <optional>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/model/graph_node.hpp"
#include "dtrain/model/row_passes.hpp"

namespace dtrain {

using torch::autograd::variable_list;

static_assert(kNormEpsilon == static_cast<float>(BatchNorm2d::kEpsilon) &&
              kNormMomentum == static_cast<float>(BatchNorm2d::kMomentum));

static std::optional<NormValue> norm_value(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat:
      return NormValue::float32;
    case at::kBFloat16:
      return NormValue::bfloat16;
    case at::kHalf:
      return NormValue::float16;
    default:
      return std::nullopt;
  }
}

NormShape norm_shape(const at::Tensor& rows) {
  const std::optional<NormValue> value = norm_value(rows);
  check(value.has_value(), "a device's norm is of float32 or 16 bits");
  return {*value, rows.size(0), rows.size(1)};
}

NormInput norm_input(const at::Tensor& rows) {
  if (!rows.defined()) return {};
  return {rows.const_data_ptr(), rows.stride(0)};
}

NormOutput norm_output(const at::Tensor& rows) {
  if (!rows.defined()) return {};
  return {rows.mutable_data_ptr(), rows.stride(0)};
}

static NormRunning running_of(const BatchNorm2d& norm) {
  return {norm.running_mean.mutable_data_ptr<float>(), norm.running_var.mutable_data_ptr<float>()};
}

DeviceNorm::DeviceNorm(const BatchNorm2d& norm, const at::Tensor& rows)
    : math(norm.norms()),
      x(rows),
      gamma(norm.weight.detach()),
      beta(norm.bias.detach()),
      mean(norm.running_mean),
      variance(norm.running_var) {
  if (!norm.is_training()) return;
  mean = at::empty_like(norm.running_mean);
  variance = at::empty_like(norm.running_var);
  math->statistics(norm_shape(x), norm_input(x), mean.mutable_data_ptr<float>(), variance.mutable_data_ptr<float>(),
                   running_of(norm));
  at::Tensor(norm.num_batches_tracked).add_(1);
}

DeviceNorm::DeviceNorm(const BatchNorm2d& norm, const at::Tensor& rows, const at::Tensor& batch_mean,
                       const at::Tensor& batch_variance)
    : math(norm.norms()),
      x(rows),
      gamma(norm.weight.detach()),
      beta(norm.bias.detach()),
      mean(batch_mean),
      variance(batch_variance) {
  math->move_statistics(norm_shape(x), mean.const_data_ptr<float>(), variance.const_data_ptr<float>(),
                        running_of(norm));
  at::Tensor(norm.num_batches_tracked).add_(1);
}

NormColumns DeviceNorm::columns() const {
  return {gamma.const_data_ptr<float>(), beta.const_data_ptr<float>(), mean.const_data_ptr<float>(),
          variance.const_data_ptr<float>()};
}

at::Tensor DeviceNorm::rectified(const at::Tensor& more) const {
  const at::Tensor y = at::empty(x.sizes(), x.options());
  math->normalise(norm_shape(x), norm_input(x), columns(), norm_input(more), norm_output(y));
  return y;
}

DeviceNorm::Gradients DeviceNorm::rectify_back(const at::Tensor& dy, const at::Tensor& result,
                                               const NormGradient& d) const {
  const Gradients sums{at::empty_like(gamma), at::empty_like(gamma)};
  math->rectify_back(norm_shape(x), norm_input(dy), norm_input(x), columns(), norm_input(result), d,
                     sums.gamma.mutable_data_ptr<float>(), sums.beta.mutable_data_ptr<float>());
  return sums;
}

void DeviceNorm::centre_back(const at::Tensor& given, bool is_rectified, const Gradients& sums,
                             const at::Tensor& dx) const {
  math->centre_back(norm_shape(x), norm_input(given), is_rectified, norm_input(x), columns(),
                    sums.gamma.const_data_ptr<float>(), sums.beta.const_data_ptr<float>(), norm_output(dx));
}

namespace {

struct DeviceNormNode final : torch::autograd::Node {
  DeviceNorm norm;
  std::vector<int64_t> nhw;
  at::Tensor result;  // where something was added

  void release_variables() override {
    norm = {};
    result.reset();
  }

  variable_list apply(variable_list&& given) override {
    require_once(norm.x);
    const bool adds = result.defined();
    const at::Tensor dy = as_rows(given[0]), dx = at::empty_like(dy), d = adds ? at::empty_like(dy) : at::Tensor();
    const DeviceNorm::Gradients sums = norm.rectify_back(dy, result, {.to = norm_output(d)});
    norm.centre_back(adds ? d : dy, adds, sums, dx);
    variable_list gradients = {as_picture(dx, nhw), sums.gamma, sums.beta};
    if (adds) gradients.push_back(as_picture(d, nhw));
    return gradients;
  }
};

}  // namespace

bool fuses_on_device(const BatchNorm2d& norm, const at::Tensor& x) {
  return norm.is_fused() && norm.norms() != nullptr && !x.is_cpu() && x.dim() == 4 && norm_value(x) &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast) && x.numel() > x.size(1) &&
         norm.weight.scalar_type() == at::kFloat && (norm.is_training() || !at::GradMode::is_enabled());
}

at::Tensor norm_relu_on_device(const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& more) {
  const auto node = make_node<DeviceNormNode>();
  const at::Tensor added = more.defined() ? more.to(x.scalar_type()) : more;
  at::Tensor y;
  {
    const at::NoGradGuard no_grad;
    node->norm = DeviceNorm(norm, as_rows(x.detach()));
    node->nhw = nhw_of(x);
    y = node->norm.rectified(added.defined() ? as_rows(added.detach()) : added);
    if (added.defined()) node->result = y;
    y = as_picture(y, node->nhw);
  }
  std::vector<at::Tensor> inputs = {x, norm.weight, norm.bias};
  if (added.defined()) inputs.push_back(added);
  if (wants_gradient(inputs)) follow(inputs, node, y);
  return y;
}

}  // namespace dtrain
