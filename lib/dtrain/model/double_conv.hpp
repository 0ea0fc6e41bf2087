#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

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

/// Whether these layers are to be fused, fused_double_conv() can compute it so, and is the faster way.
bool fuses(const DoubleConvLayers& layers, const at::Tensor& x);
/// The same where the pass runs on a CPU in 32 bits (LayerList::fused()).
bool fuses(const DoubleConvLayers& layers, const Sketch& x);
at::Tensor fused_double_conv(const DoubleConvLayers& layers, const at::Tensor& x);
Sketch fused_double_conv(const DoubleConvLayers& layers, const Sketch& x);

}  // namespace dtrain
