#include "dtrain/model/functions.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/upsample_nearest2d.h>

#include "dtrain/base/error.hpp"

namespace dtrain {

at::Tensor norm_relu(const BatchNorm2d& norm, const at::Tensor& x) {
  return fuses_relu(norm, x) ? fused_norm_relu(norm, x) : relu_in_place(norm(x));
}
Sketch norm_relu(const BatchNorm2d& norm, const Sketch& x) {
  if (!fuses(norm, x)) return relu_in_place(norm(x));
  const Sketch y = norm(x);
  y.list->change(PassTape::Op::relu_of_norm, {y});
  return y;
}
GraphValue norm_relu(const BatchNorm2d& norm, const GraphValue& x) { return relu_in_place(norm(x)); }

at::Tensor relu_in_place(at::Tensor x) { return at::relu_(x); }
Sketch relu_in_place(const Sketch& x) {
  x.list->change(PassTape::Op::relu, {x});
  return x;
}
GraphValue relu_in_place(const GraphValue& x) { return x.through("Relu"); }

static Sketch pool(PassTape::Op op, const Sketch& x, const Window& w, const std::string& name) {
  Sketch y = x.through(op, {x.shape[0], w.outputs(x.shape[1]), w.outputs(x.shape[2])});
  x.list->add(name, "pool", y.shape);
  return y;
}

static GraphValue pool(const std::string& op, const GraphValue& x, const Window& w,
                       std::vector<ForwardGraph::Attribute> more) {
  more.insert(more.end(), {{"kernel_shape", std::vector{w.kernel, w.kernel}},
                           {"strides", std::vector{w.stride, w.stride}},
                           {"pads", std::vector<int64_t>(4, w.padding)}});
  return x.graph->add(op, {x}, {}, std::move(more));
}

at::Tensor max_pool(const at::Tensor& x, const Window& w, const std::string&) {
  return at::max_pool2d(x, {w.kernel, w.kernel}, {w.stride, w.stride}, {w.padding, w.padding});
}
Sketch max_pool(const Sketch& x, const Window& window, const std::string& name) {
  return pool(PassTape::Op::max_pool, x, window, name);
}
GraphValue max_pool(const GraphValue& x, const Window& window, const std::string&) {
  return pool("MaxPool", x, window, {});
}

at::Tensor average_pool(const at::Tensor& x, const Window& w, const std::string&) {
  return at::avg_pool2d(x, {w.kernel, w.kernel}, {w.stride, w.stride}, {w.padding, w.padding});
}
Sketch average_pool(const Sketch& x, const Window& window, const std::string& name) {
  return pool(PassTape::Op::average_pool, x, window, name);
}
GraphValue average_pool(const GraphValue& x, const Window& window, const std::string&) {
  return pool("AveragePool", x, window, {{"count_include_pad", int64_t{1}}});
}

at::Tensor global_average_pool(const at::Tensor& x, const std::string&) {
  return at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
}
Sketch global_average_pool(const Sketch& x, const std::string& name) {
  Sketch y = x.through(PassTape::Op::global_pool, {x.shape[0]});
  x.list->add(name, "pool", y.shape);
  return y;
}
GraphValue global_average_pool(const GraphValue& x, const std::string&) {
  return flat_features(x.through("GlobalAveragePool"));
}

at::Tensor doubled(const at::Tensor& x, const std::string&) {
  return at::upsample_nearest2d(x, {2 * x.size(2), 2 * x.size(3)});
}
Sketch doubled(const Sketch& x, const std::string& name) {
  Sketch y = x.through(PassTape::Op::upsample, {x.shape[0], 2 * x.shape[1], 2 * x.shape[2]});
  x.list->add(name, "upsample", y.shape);
  return y;
}
// Of a scale of 2 each of Resize's ways to find the nearest pixel, its default too, finds the same.
GraphValue doubled(const GraphValue& x, const std::string&) {
  const GraphValue no_region{"", x.graph};
  return x.graph->add("Resize", {x, no_region, x.graph->constant("scales", at::tensor({1.0F, 1.0F, 2.0F, 2.0F}))});
}

at::Tensor concat(const std::vector<at::Tensor>& parts, const std::string&) { return at::cat(parts, 1); }
Sketch concat(const std::vector<Sketch>& parts, const std::string& name) {
  std::vector<int64_t> shape = parts.front().shape;
  for (size_t i = 1; i < parts.size(); ++i) shape[0] += parts[i].shape[0];
  LayerList& list = *parts.front().list;
  list.add(name, "concat", shape);
  return list.make(PassTape::Op::concat, parts, shape);
}
GraphValue concat(const std::vector<GraphValue>& parts, const std::string&) {
  return parts.front().graph->add("Concat", parts, {}, {{"axis", int64_t{1}}});
}

at::Tensor add_to(at::Tensor a, const at::Tensor& b) { return a.add_(b); }
Sketch add_to(const Sketch& a, const Sketch& b) {
  check(a.shape == b.shape, "a shortcut has the shape of what it is added to");
  a.list->change(PassTape::Op::add, {a, b});
  return a;
}
GraphValue add_to(const GraphValue& a, const GraphValue& b) { return a.graph->add("Add", {a, b}); }

at::Tensor flat_features(const at::Tensor& x) { return x.flatten(1); }
Sketch flat_features(const Sketch& x) {
  int64_t features = 1;
  for (const int64_t size : x.shape) features *= size;
  return x.through(PassTape::Op::flatten, {features});
}
GraphValue flat_features(const GraphValue& x) { return x.graph->add("Flatten", {x}, {}, {{"axis", int64_t{1}}}); }

}  // namespace dtrain
