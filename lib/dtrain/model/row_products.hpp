#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "dtrain/base/error.hpp"
#include "dtrain/model/row_passes.hpp"

/// Products of matrices whose rows are pixels, and what becomes of their results while they are in cache. Matrices and
/// promises as in row_passes.hpp.
namespace dtrain {

/// The left side of a transposed product, [rows, height] of up to `most` rows at a time.
template <class T>
class Across {
 public:
  Across(int64_t most, int64_t height) : height_(height), packed_(most * (height + row_kernels<T>().tile_rows)) {}

  void pack(int64_t rows, Rows<const T> a) { row_kernels<T>().pack_across(rows, height_, a, packed_.data()); }
  /// y += aᵀ · b for b [rows, columns], y [height, columns].
  void add_product(int64_t rows, int64_t columns, Rows<const T> b, Rows<T> y) {
    row_kernels<T>().add_transposed_product(height_, columns, rows, packed_.data(), b, y);
  }

 private:
  int64_t height_;
  Scratch<T> packed_;
};

/// What becomes of a convolution's results in evaluation: y·scale + shift of each channel, then plus `more`, then
/// max(0, y). Without a norm nothing.
struct Epilogue {
  NormScales norm;
  at::Tensor more = {};  ///< rows [pixels, channels] of the result's kind, or undefined; needs `rectified`
  bool rectified = true;

  bool any() const { return norm.scale.defined(); }
};

/// Brings rows that are in cache through an epilogue, which must not be empty, to their place in `result` [pixels,
/// channels], channels a multiple of kColumns. Refers to the tensors of both. Throws InternalError for an epilogue that
/// contradicts itself.
template <class T>
class EpiloguePass {
 public:
  /// `streamed`: past the caches, only if streams(result) and the rows come from elsewhere.
  EpiloguePass(const Epilogue& epilogue, const at::Tensor& result, bool streamed)
      : result_(rows_of<T>(result)),
        norm_(epilogue.norm.columns<T>()),
        more_(epilogue.more.defined() ? const_rows(rows_of<T>(epilogue.more)) : Rows<const T>{}),
        rectified_(epilogue.rectified),
        streamed_(streamed) {
    check(more_.data == nullptr || (rectified_ && epilogue.more.sizes() == result.sizes()),
          "what an epilogue adds has the result's shape, and a ReLU behind it");
  }

  /// `rows` of them, the first `row` of the result, `columns` from `column` on. They may be in their place already.
  void operator()(Rows<const T> values, int64_t rows, int64_t row, int64_t columns, int64_t column = 0) const {
    const RowKernels<T>& kernels = row_kernels<T>();
    const Rows<T> to = result_.at(row, column);
    const ColumnScales<T> norm = norm_.at(column);
    if (more_.data != nullptr)
      kernels.normalise_sum(rows, columns, values, norm, more_.at(row, column), to, streamed_);
    else
      (rectified_ ? kernels.normalise : kernels.scale)(rows, columns, values, norm, to, streamed_);
  }

 private:
  Rows<T> result_;
  ColumnScales<T> norm_;
  Rows<const T> more_;
  bool rectified_, streamed_;
};

/// Of all rows, in their place, in a pass over memory of its own.
void apply_in_place(const Epilogue& epilogue, const at::Tensor& rows);

/// a · b for a [rows, depth], b [depth, columns], and the epilogue of that.
at::Tensor multiplied(const at::Tensor& a, const at::Tensor& b, const Epilogue& epilogue = {});
/// Floats that one such product of float needs while it runs on as many threads as LibTorch may use.
int64_t product_workspace(int64_t depth, int64_t columns);
/// aᵀ · b for a [rows, height], b [rows, columns].
at::Tensor transposed_product(const at::Tensor& a, const at::Tensor& b);
int64_t transposed_workspace(int64_t height);

}  // namespace dtrain
