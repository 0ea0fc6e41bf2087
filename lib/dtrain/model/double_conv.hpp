#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "dtrain/model/functions.hpp"
#include "dtrain/model/layers.hpp"

namespace dtrain {

/// 3x3 convolution, norm and ReLU, twice, as one node of autograd: what lies between is neither written in its
/// normalised form nor read for its statistics. For NHWC pictures of float or double on the CPU with few channels,
/// which a library's convolutions leave half of a vector's lanes empty for. The way back keeps what goes in and what
/// both convolutions give.
struct DoubleConvLayers {
  const Conv2d& conv1;  ///< stride 1, padding 1, no bias
  const BatchNorm2d& norm1;
  const Conv2d& conv2;  ///< the same
  const BatchNorm2d& norm2;
};

/// What goes in: one value [n, C, H, W], or several of one n, H, W and type whose channels follow one another, which
/// are not concatenated then.
template <class X>
using Parts = std::vector<X>;

/// As one value.
template <class X>
X joined(const Parts<X>& parts) {
  return parts.size() == 1 ? parts.front() : concat(parts, "concat");
}

/// Whether these layers are to be fused, fused_double_conv() can compute it so, and is the faster way.
bool fuses(const DoubleConvLayers& layers, const Parts<at::Tensor>& x);
/// The same where the pass runs on a CPU in 32 bits (LayerList::fused()).
bool fuses(const DoubleConvLayers& layers, const Parts<Sketch>& x);
at::Tensor fused_double_conv(const DoubleConvLayers& layers, const Parts<at::Tensor>& x);
Sketch fused_double_conv(const DoubleConvLayers& layers, const Parts<Sketch>& x);

/// Maps [n, C, H, W], and the largest of each 2 x 2 pixels [n, C, ⌊H/2⌋, ⌊W/2⌋].
template <class X>
struct PooledMaps {
  X maps, pooled;
};
/// Whether evaluated_double_conv() can compute it: layers that are fused, in evaluation mode, and nobody goes back.
bool evaluates(const DoubleConvLayers& layers, const at::Tensor& x);
/// To the bit what fused_double_conv() and max_pool() make of it, in one pass over memory.
PooledMaps<at::Tensor> evaluated_double_conv(const DoubleConvLayers& layers, const at::Tensor& x);

}  // namespace dtrain
