#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "dtrain/model/layers.hpp"
#include "dtrain/model/row_passes.hpp"

/// Max pooling behind a norm and a ReLU, in the same pass over memory, and its way back. Pictures are rows [n·H·W, C]
/// as in row_passes.hpp, `nhw` = {n, H, W}, C a multiple of 64. The same bits as LibTorch's max_pool2d gives, and for
/// any number of threads.
namespace dtrain {

struct Pooled {
  at::Tensor rows;    ///< the largest of each window
  at::Tensor chosen;  ///< of the same size, bytes: which pixel of its window that is; of equals the first
};

/// Whether there are passes for this window: of up to 3x3 pixels, at most half of them padding.
bool pools_rows(const Window& window, int64_t channels);

/// Of max(0, norm(x)), which is not written.
Pooled max_pooled(const at::Tensor& x, at::IntArrayRef nhw, const NormScales& scales, const Window& window);
/// From the gradient of the pooled rows that of what was pooled, pictures of `nhw`.
at::Tensor max_pooled_back(const at::Tensor& dy, const at::Tensor& chosen, at::IntArrayRef nhw, const Window& window);

}  // namespace dtrain
