#include "dtrain/model/pointwise.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>

namespace dtrain {

// The pixels that a convolution with this stride reads, a view.
static at::Tensor read_pixels(const at::Tensor& picture, int64_t stride) {
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  return stride == 1 ? picture : picture.slice(2, 0, kEnd, stride).slice(3, 0, kEnd, stride);
}

static at::Tensor matrix_of(const at::Tensor& kernel) { return kernel.select(3, 0).select(2, 0); }

static bool fit(int64_t in, int64_t out) { return in % kColumns == 0 && out % kColumns == 0; }

bool pointwise_serves(const at::Tensor& x, int64_t out) {
  return x.dim() == 4 && serves_rows(x, true) && x.is_contiguous(at::MemoryFormat::ChannelsLast) && fit(x.size(1), out);
}

int64_t pointwise_workspace(int64_t in, int64_t out) {
  if (!fit(in, out)) return 0;
  return std::max(product_workspace(in, out), transposed_workspace(out));
}

at::Tensor pointwise(const at::Tensor& x, const at::Tensor& kernel, int64_t stride, const Epilogue& epilogue) {
  const at::Tensor read = read_pixels(x, stride);
  return as_picture(multiplied(as_rows(read), matrix_of(kernel).t(), epilogue), nhw_of(read));
}

at::Tensor pointwise_input_back(const at::Tensor& dy, const at::Tensor& kernel, int64_t stride,
                                at::IntArrayRef x_sizes) {
  const at::Tensor read = as_picture(multiplied(as_rows(dy), matrix_of(kernel)), nhw_of(dy));
  if (stride == 1) return read;
  const at::Tensor dx = at::empty(x_sizes, dy.options(), at::MemoryFormat::ChannelsLast).zero_();
  read_pixels(dx, stride).copy_(read);
  return dx;
}

at::Tensor pointwise_kernel_back(const at::Tensor& x, const at::Tensor& dy, int64_t stride) {
  const at::Tensor dw = transposed_product(as_rows(dy), as_rows(read_pixels(x, stride)));
  return dw.view({dw.size(0), dw.size(1), 1, 1});
}

}  // namespace dtrain
