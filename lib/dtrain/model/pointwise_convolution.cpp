#include "dtrain/model/pointwise_convolution.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <vector>

#include "dtrain/model/graph_node.hpp"
#include "dtrain/model/matrix_product.hpp"
#include "dtrain/model/row_passes.hpp"

namespace dtrain {

using torch::autograd::variable_list;

namespace {

at::Tensor each_nth(const at::Tensor& picture, int64_t stride) {
  return stride == 1 ? picture : picture.slice(2, 0, picture.size(2), stride).slice(3, 0, picture.size(3), stride);
}

struct PointwiseNode final : torch::autograd::Node {
  at::Tensor x, kernel;                // [pixels read, in], [out, in]; where the other's gradient is asked for
  std::vector<int64_t> picture, read;  // x's shape, and n, H, W of what is read of it
  int64_t stride = 1;

  void release_variables() override {
    x.reset();
    kernel.reset();
    read.clear();
  }

  at::Tensor of_picture(const at::Tensor& dy) const {
    const at::Tensor dx = as_picture(multiplied(dy, kernel), read);
    if (stride == 1) return dx;
    const at::Tensor whole = at::zeros(picture, dx.options().memory_format(at::MemoryFormat::ChannelsLast));
    each_nth(whole, stride).copy_(dx);
    return whole;
  }

  variable_list apply(variable_list&& given) override {
    require_once(!read.empty());
    variable_list gradients(2);
    if (!given[0].defined()) return gradients;
    const at::Tensor dy = as_rows(given[0]);
    if (task_should_compute_output(0)) gradients[0] = of_picture(dy);
    if (task_should_compute_output(1)) gradients[1] = transposed_product(dy, x).view({dy.size(1), x.size(1), 1, 1});
    return gradients;
  }
};

}  // namespace

bool is_product(const ConvShape& shape, const at::Tensor& x) {
  return shape.kernel == 1 && shape.padding == 0 && !shape.bias && shape.in % kColumns == 0 &&
         shape.out % kColumns == 0 && x.size(1) == shape.in && serves_rows(x, true) &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor pointwise_convolution(const at::Tensor& x, const at::Tensor& weight, int64_t stride) {
  const auto node = make_node<PointwiseNode>();
  at::Tensor y;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor picture = each_nth(x.detach(), stride), rows = as_rows(picture);
    const at::Tensor kernel = weight.detach().reshape({weight.size(0), weight.size(1)});
    node->picture = x.sizes().vec();
    node->read = {picture.size(0), picture.size(2), picture.size(3)};
    node->stride = stride;
    if (weight.requires_grad()) node->x = rows;
    if (x.requires_grad()) node->kernel = kernel;
    y = as_picture(multiplied(rows, kernel.t()), node->read);
  }
  const std::vector<at::Tensor> inputs = {x, weight};
  if (wants_gradient(inputs)) follow(inputs, node, y);
  return y;
}

}  // namespace dtrain
