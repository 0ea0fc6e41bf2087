#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "dtrain/model/layers.hpp"

namespace dtrain {

/// A 1×1 convolution without bias as one product of matrices, pixels by channels: NHWC pictures of float or double on
/// the CPU, numbers of channels that are multiples of 32. LibTorch's goes through copies of the picture, and on
/// processors that are not Intel's through a product for half of their vectors.

/// Whether pointwise_convolution() can compute it so.
bool is_product(const ConvShape& shape, const at::Tensor& x);
/// Reads every `stride`-th pixel of every `stride`-th line of x [n, in, H, W]; weight [out, in, 1, 1]. One node of
/// autograd. A gradient that nobody asks for, as of frozen weights, costs nothing.
at::Tensor pointwise_convolution(const at::Tensor& x, const at::Tensor& weight, int64_t stride);

}  // namespace dtrain
