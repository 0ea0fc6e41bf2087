#pragma once
#include <ATen/core/Tensor.h>

#include "dtrain/model/layers.hpp"

namespace dtrain {

/// Pairs of layers, each as one node of autograd with passes of its own (row_passes.hpp): NHWC pictures of float or
/// double on the CPU. The way back keeps what goes in and what comes out, which the next layer keeps anyway.

/// Whether norm_relu() below can compute it so.
bool fuses(const BatchNorm2d& norm, const at::Tensor& x);
/// relu(norm(x)), or relu(norm(x) + more) if `more` is given, of x's shape.
at::Tensor fused_norm_relu(const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& more = {});

/// Whether a 1×1 convolution without bias, as one product of the pictures' pixels with its kernel, can be computed so.
bool fuses_pointwise(const at::Tensor& x, const at::Tensor& kernel);
/// [n, in, H, W] and [out, in, 1, 1] → [n, out, H, W].
at::Tensor pointwise(const at::Tensor& x, const at::Tensor& kernel);

}  // namespace dtrain
