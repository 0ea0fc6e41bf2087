#pragma once
#include <ATen/core/Tensor.h>

#include <string>

#include "dtrain/model/layers.hpp"

namespace dtrain {

/// Some layers as one node of autograd with passes of its own (row_passes.hpp): NHWC pictures of float or double on the
/// CPU; on a device norms with a ReLU (device_norms.hpp). The way back keeps what goes in and, where something is
/// added, what comes out, which the next layer keeps anyway.

/// Whether norm_relu() can be computed so with the layer behind it: on the CPU.
bool fuses(const BatchNorm2d& norm, const at::Tensor& x);
/// The same where the pass runs on a CPU in 32 bits (LayerList::fused()).
bool fuses(const BatchNorm2d& norm, const Sketch& x);
/// Whether the max pooling behind them can be computed with them.
bool fuses(const BatchNorm2d& norm, const Window& window, const at::Tensor& x);
bool fuses(const BatchNorm2d& norm, const Window& window, const Sketch& x);

/// Whether the next one can compute it, on the CPU or on a device.
bool fuses_relu(const BatchNorm2d& norm, const at::Tensor& x);
/// relu(norm(x)), or relu(norm(x) + more) if `more` is given, of x's shape.
at::Tensor fused_norm_relu(const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& more = {});
/// Whether the two below can compute norm(conv(x)): in evaluation, where nothing goes back.
bool evaluates(const BatchNorm2d& norm, const at::Tensor& x);
/// norm(conv(x)), where dtrain computes the convolution itself while its results are in cache.
at::Tensor evaluated(const Conv2d& conv, const BatchNorm2d& norm, const at::Tensor& x);
/// relu(norm(conv(x))), or relu(norm(conv(x)) + more) if `more` is given, of the result's shape.
at::Tensor evaluated_relu(const Conv2d& conv, const BatchNorm2d& norm, const at::Tensor& x,
                          const at::Tensor& more = {});

/// conv(relu(norm(x))). What is rectified is not kept but computed again on the way back.
at::Tensor fused_norm_relu_conv(const BatchNorm2d& norm, const Conv2d& conv, const at::Tensor& x);
Sketch fused_norm_relu_conv(const BatchNorm2d& norm, const Conv2d& conv, const Sketch& x);
/// max_pool(relu(norm(x))). What is rectified is never written; a byte for each result says where it was.
at::Tensor fused_norm_relu_max_pool(const BatchNorm2d& norm, const Window& window, const at::Tensor& x);
Sketch fused_norm_relu_max_pool(const BatchNorm2d& norm, const Window& window, const Sketch& x,
                                const std::string& name);

}  // namespace dtrain
