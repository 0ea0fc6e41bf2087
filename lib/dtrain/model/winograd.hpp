#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "dtrain/model/row_products.hpp"

namespace dtrain {

/// 3 × 3 convolutions with stride 1 and padding 1 by Winograd's minimal filtering F(2×2, 3×3): 4 products for each
/// pixel and pair of channels in place of 9 (A. Lavin and S. Gray, "Fast algorithms for convolutional neural networks",
/// CVPR 2016). For NHWC pictures of float or double on the CPU, in which a tile of 4 × 4 pixels, 2 × 2 of them its own,
/// becomes 16 places; at each place a matrix product over channels gives that of the result's tile. All numbers of
/// channels are multiples of RowKernels::tile. Errors, as a part of the largest value, were measured as no larger than
/// oneDNN's (docs/performance.md); a pixel's follows from its whole tile, so that where a direct convolution gives
/// exactly 0 this may not, and what is not finite reaches all pixels of its tiles. The same bits for any number of
/// threads, and of one picture whichever others are beside it.
/// Pictures are [n, channels, H, W] in channels-last, kernels [out, in, 3, 3] in any order. Results are new tensors,
/// all in channels-last; nothing here has a history, and nothing is thrown but for want of memory.

/// Whether networks compute such a convolution of x, to so many channels, in this way.
bool winograd_pays(const at::Tensor& x, int64_t out);
/// Floats that one of float pictures of these sides needs at most while it runs on as many threads as LibTorch may use,
/// forward or back; 0 where networks compute it otherwise.
int64_t winograd_workspace(int64_t in, int64_t out, int64_t height, int64_t width);

/// x convolved with the kernel, plus `bias` [out] unless that is undefined, and the epilogue of that.
at::Tensor winograd(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias = {},
                    const Epilogue& epilogue = {});
/// The gradient of x for dy, that of the result.
at::Tensor winograd_input_back(const at::Tensor& dy, const at::Tensor& kernel);

struct WinogradGradients {
  at::Tensor kernel, bias;
};
/// The gradient of the kernel, and of a bias if it is asked for.
WinogradGradients winograd_kernel_back(const at::Tensor& x, const at::Tensor& dy, bool of_bias);

}  // namespace dtrain
