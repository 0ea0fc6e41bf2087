#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "dtrain/model/fused_layers.hpp"
#include "dtrain/model/layers.hpp"

namespace dtrain {

/// What the networks do between layers. Each function takes tensors, sketches of them (sketch.hpp) or values of a graph
/// (graph.hpp). `name` is what Network::layers() calls the result; only sketches use it.

/// relu(norm(x)): one name for the pair, because one pass over memory can do both.
at::Tensor norm_relu(const BatchNorm2d& norm, const at::Tensor& x);
Sketch norm_relu(const BatchNorm2d& norm, const Sketch& x);
GraphValue norm_relu(const BatchNorm2d& norm, const GraphValue& x);

/// conv(relu(norm(x))): where nothing else reads what lies between, it need not be kept for the way back.
template <class X>
X norm_relu_conv(const BatchNorm2d& norm, const Conv2d& conv, const X& x) {
  if constexpr (!std::is_same_v<X, GraphValue>)
    if (fuses(norm, x)) return fused_norm_relu_conv(norm, conv, x);
  return conv(norm_relu(norm, x));
}

/// Max(0, x) in place: `x` must be the result of a layer that does not need it for its gradient.
at::Tensor relu_in_place(at::Tensor x);
Sketch relu_in_place(const Sketch& x);
GraphValue relu_in_place(const GraphValue& x);

at::Tensor max_pool(const at::Tensor& x, const Window& window, const std::string& name);
Sketch max_pool(const Sketch& x, const Window& window, const std::string& name);
GraphValue max_pool(const GraphValue& x, const Window& window, const std::string& name);
at::Tensor average_pool(const at::Tensor& x, const Window& window, const std::string& name);
Sketch average_pool(const Sketch& x, const Window& window, const std::string& name);
GraphValue average_pool(const GraphValue& x, const Window& window, const std::string& name);
/// [n, C, H, W] → [n, C].
at::Tensor global_average_pool(const at::Tensor& x, const std::string& name);
Sketch global_average_pool(const Sketch& x, const std::string& name);
GraphValue global_average_pool(const GraphValue& x, const std::string& name);

/// max_pool(relu(norm(x))), where nothing else reads what lies between.
template <class X>
X norm_relu_max_pool(const BatchNorm2d& norm, const X& x, const Window& window, const std::string& name) {
  if constexpr (std::is_same_v<X, at::Tensor>) {
    if (fuses(norm, window, x)) return fused_norm_relu_max_pool(norm, window, x);
  } else if constexpr (std::is_same_v<X, Sketch>) {
    if (fuses(norm, window, x)) return fused_norm_relu_max_pool(norm, window, x, name);
  }
  return max_pool(norm_relu(norm, x), window, name);
}

/// Twice as high and wide, each pixel four times.
at::Tensor doubled(const at::Tensor& x, const std::string& name);
Sketch doubled(const Sketch& x, const std::string& name);
GraphValue doubled(const GraphValue& x, const std::string& name);

/// Along the channels.
at::Tensor concat(const std::vector<at::Tensor>& parts, const std::string& name);
Sketch concat(const std::vector<Sketch>& parts, const std::string& name);
GraphValue concat(const std::vector<GraphValue>& parts, const std::string& name);

/// a += b; returns a.
at::Tensor add_to(at::Tensor a, const at::Tensor& b);
Sketch add_to(const Sketch& a, const Sketch& b);
GraphValue add_to(const GraphValue& a, const GraphValue& b);

/// relu(norm(x) + more()). `more` is called after the norm has been listed.
template <class X, class More>
X norm_add_relu(const BatchNorm2d& norm, const X& x, const More& more) {
  if constexpr (std::is_same_v<X, at::Tensor>)
    if (fuses_relu(norm, x)) return fused_norm_relu(norm, x, more());
  const X y = norm(x);
  return relu_in_place(add_to(y, more()));
}

/// relu(norm2(conv2(relu(norm1(conv1(x)))))).
template <class X>
X two_convs(const Conv2d& conv1, const BatchNorm2d& norm1, const Conv2d& conv2, const BatchNorm2d& norm2, const X& x) {
  if constexpr (std::is_same_v<X, at::Tensor>)
    if (evaluates(norm1, x) && evaluates(norm2, x))
      return evaluated_relu(conv2, norm2, evaluated_relu(conv1, norm1, x));
  return norm_relu(norm2, norm_relu_conv(norm1, conv2, conv1(x)));
}

/// [n, C, H, W] → [n, C·H·W] in that order, whatever the memory format.
at::Tensor flat_features(const at::Tensor& x);
Sketch flat_features(const Sketch& x);
GraphValue flat_features(const GraphValue& x);

}  // namespace dtrain
