#pragma once
#include <ATen/core/Tensor.h>

#include "dtrain/model/layers.hpp"

namespace dtrain {

/// Pairs of layers, each as one node of autograd with passes of its own (row_passes.hpp): NHWC pictures of float or
/// double on the CPU. The way back keeps what goes in and what comes out, which the next layer keeps anyway.

/// Whether norm_relu() below can compute it so.
bool fuses(const BatchNorm2d& norm, const at::Tensor& x);
/// The same where the pass runs on a CPU in 32 bits (LayerList::fused()).
bool fuses(const BatchNorm2d& norm, const Sketch& x);
/// relu(norm(x)), or relu(norm(x) + more) if `more` is given, of x's shape.
at::Tensor fused_norm_relu(const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& more = {});

}  // namespace dtrain
