#include "dtrain/model/matrix_product.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/model/row_passes.hpp"

namespace dtrain {

namespace {

constexpr int64_t kDeep = 384;  // so much of a tile of the right side stays in the nearest caches
constexpr int64_t kHigh = 192;  // and so many rows of the left side

struct Span {
  int64_t begin, end;
};

template <class T>
struct Operands {
  Rows<const T> left;
  bool transposed;  // left is [depth, height]
  const T* right;
  int64_t right_row, right_column;  // strides
  int64_t depth;

  // Some of it. Only what lies across is copied: a tile's rows are read side by side anyway.
  TileSide<T> left_side(int64_t h, int64_t height, int64_t k, int64_t deep, T* across) const {
    const RowKernels<T>& kernels = row_kernels<T>();
    if (!transposed) return kernels.left_side(left.at(h, k));
    kernels.pack_across(deep, height, left.at(k, h), across);
    return kernels.left_side_across(across, deep);
  }
};

template <class T>
void multiply_part(const Operands<T>& of, Span rows, Span columns, Rows<T> y) {
  const RowKernels<T>& kernels = row_kernels<T>();
  const int64_t width = columns.end - columns.begin;
  Scratch<T> right(kDeep * width);
  auto across = scratch_across<T>(kHigh, kDeep);
  for (int64_t k = 0; k < of.depth; k += kDeep) {
    const int64_t deep = std::min(kDeep, of.depth - k);
    kernels.pack(deep, width, of.right + k * of.right_row + columns.begin * of.right_column, of.right_row,
                 of.right_column, right.data());
    for (int64_t h = rows.begin; h < rows.end; h += kHigh) {
      const int64_t height = std::min(kHigh, rows.end - h);
      kernels.product(height, width, deep, of.left_side(h, height, k, deep, across.data()),
                      kernels.right_side(right.data(), deep), k > 0, y.at(h, columns.begin));
    }
  }
}

// Threads share the longer side.
template <class T>
void multiply(const Operands<T>& of, int64_t height, int64_t width, Rows<T> y) {
  if (height >= width)
    at::parallel_for(0, (height + kHigh - 1) / kHigh, 1, [&](int64_t begin, int64_t end) {
      multiply_part(of, {begin * kHigh, std::min(height, end * kHigh)}, {0, width}, y);
    });
  else
    for_columns(width, [&](int64_t first, int64_t count) {
      multiply_part(of, {0, height}, {first, first + count}, y);
    });
}

at::Tensor product(const at::Tensor& a, bool transposed, const at::Tensor& b) {
  const int64_t height = a.size(transposed ? 1 : 0);
  check(a.size(transposed ? 0 : 1) == b.size(0), "both sides of a product have the same depth");
  const at::Tensor y =
      b.size(0) == 0 ? at::zeros({height, b.size(1)}, a.options()) : at::empty({height, b.size(1)}, a.options());
  with_type(a, [&](auto zero) {
    using T = decltype(zero);
    multiply<T>({const_rows(rows_of<T>(a)), transposed, b.const_data_ptr<T>(), b.stride(0), b.stride(1), b.size(0)},
                height, b.size(1), rows_of<T>(y));
  });
  return y;
}

}  // namespace

at::Tensor multiplied(const at::Tensor& a, const at::Tensor& b) { return product(a, false, b); }
at::Tensor transposed_product(const at::Tensor& a, const at::Tensor& b) { return product(a, true, b); }

}  // namespace dtrain
