#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "dtrain/model/row_products.hpp"

namespace dtrain {

/// 1 × 1 convolutions without padding and bias as products of pixels' channels with the kernel (row_kernels.hpp), for
/// NHWC pictures of float or double on the CPU; numbers of channels are multiples of kColumns. With a stride s only
/// every s-th pixel of every s-th line is read, from the first on. The same bits for any number of threads, and of one
/// picture whichever others are beside it.
/// Pictures are [n, channels, H, W] in channels-last, kernels [out, in, 1, 1] in any order. Results are new tensors;
/// nothing here has a history, and nothing is thrown but for want of memory.

/// Whether networks compute such a convolution of x, to so many channels, in this way.
bool pointwise_serves(const at::Tensor& x, int64_t out);
/// Floats that one of float needs at most while it runs on as many threads as LibTorch may use, forward or back,
/// whatever the number of pictures; 0 where networks compute it otherwise.
int64_t pointwise_workspace(int64_t in, int64_t out);

/// x convolved with the kernel, and the epilogue of that.
at::Tensor pointwise(const at::Tensor& x, const at::Tensor& kernel, int64_t stride, const Epilogue& epilogue = {});
/// The gradient of x, of these sizes, for dy, that of the result.
at::Tensor pointwise_input_back(const at::Tensor& dy, const at::Tensor& kernel, int64_t stride,
                                at::IntArrayRef x_sizes);
/// The gradient of the kernel.
at::Tensor pointwise_kernel_back(const at::Tensor& x, const at::Tensor& dy, int64_t stride);

}  // namespace dtrain
