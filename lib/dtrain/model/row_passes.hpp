#pragma once
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dtrain/model/layers.hpp"
#include "dtrain/model/row_kernels.hpp"

/// Passes over memory for the nodes of fused networks (fused_layers.hpp, dense_slab.hpp). Matrices are dense tensors
/// [rows, channels] on the CPU, float or double, whose rows are pixels. Numbers of channels are multiples of 32, or
/// divide 32. The same bits for any number of threads.
namespace dtrain {

/// Whether tensors of this kind and place can be computed so. `training`: false for a norm with running statistics,
/// which has no way back here.
bool serves_rows(const at::Tensor& x, bool training);

template <class T>
Rows<T> rows_of(const at::Tensor& matrix, int64_t column = 0) {
  return {matrix.data_ptr<T>() + column, matrix.stride(0)};
}
template <class T>
Rows<const T> const_rows(Rows<T> rows) {
  return {rows.data, rows.stride};
}

// These three are of tensors of any kind, number and place.
/// [n·H·W, C] as [n, C, H, W] in channels-last: no copy.
at::Tensor as_picture(const at::Tensor& rows, at::IntArrayRef nhw);
/// And back: no copy if it is in channels-last.
at::Tensor as_rows(const at::Tensor& picture);
/// {n, H, W} of [n, C, H, W].
inline std::vector<int64_t> nhw_of(const at::Tensor& picture) {
  return {picture.size(0), picture.size(2), picture.size(3)};
}

/// A norm's scale and shift of each channel, and what they were made from.
struct NormScales {
  at::Tensor scale, shift, mean, inverse;  ///< inverse: 1/√(variance + ε)

  template <class T>
  ColumnScales<T> columns() const {
    return {scale.data_ptr<T>(), shift.data_ptr<T>(), mean.data_ptr<T>()};
  }
};

struct NormGradients {
  at::Tensor weight, bias;
};

inline constexpr int64_t kPanel = 96;    // pixels whose values are worked on while they are in cache
inline constexpr int64_t kColumns = 32;  // the least that a thread takes: a multiple of every RowKernels::tile

/// Whether so many channels are multiples of 32 or divide it, and the picture's values fill rows of 32.
bool fills_rows(int64_t channels, int64_t values);

/// Whether passes write this matrix past the caches (RowKernels): it has 1 MiB or more, so that they would not keep it
/// until it is read, and its rows begin at multiples of 64 bytes. Changes no bit.
bool streams(const at::Tensor& rows);

template <class Body>
void for_panels(int64_t pixels, const Body& body) {
  at::parallel_for(0, (pixels + kPanel - 1) / kPanel, 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel)
      body(panel, panel * kPanel, std::min(kPanel, pixels - panel * kPanel));
  });
}

// Each thread takes some columns, all rows of them: a column's sums have one order for any number of threads.
template <class Body>
void for_columns(int64_t columns, const Body& body) {
  at::parallel_for(0, columns / kColumns, 1,
                   [&](int64_t begin, int64_t end) { body(begin * kColumns, (end - begin) * kColumns); });
}

template <class Body>
void with_type(const at::Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kDouble)
    body(double{});
  else
    body(float{});
}

// Uninitialised, at the start of a cache line.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : memory_(at::empty({count}, at::CppTypeToScalarType<T>::value)), data_(memory_.template data_ptr<T>()) {}
  T* data() { return data_; }

 private:
  at::Tensor memory_;
  T* data_;  // at::Tensor's own answer takes longer than the smallest loops
};

/// Mean and biased variance of each column, from those of panels (Chan, Golub and LeVeque 1979).
template <class T>
class Moments {
 public:
  /// `panel`: pixels of each, but for the last.
  Moments(int64_t pixels, int64_t columns, int64_t panel = kPanel) : pixels_(pixels), columns_(columns), panel_(panel) {
    parts_.resize(static_cast<size_t>(2 * (pixels + panel - 1) / panel * columns + 2 * columns));
  }

  /// Where a panel's means are, and behind them its squares (RowKernels::moments).
  T* part(int64_t panel) { return parts_.data() + 2 * panel * columns_; }

  void take(int64_t panel, int64_t rows, Rows<const T> values) {
    row_kernels<T>().moments(rows, columns_, values, part(panel), part(panel) + columns_);
  }

  void finish(T* mean, T* variance) const {
    std::vector<double> means(static_cast<size_t>(columns_)), squares(static_cast<size_t>(columns_));
    const T* part = parts_.data();
    for (int64_t begin = 0; begin < pixels_; begin += panel_, part += 2 * columns_) {
      const auto before = static_cast<double>(begin), rows = static_cast<double>(std::min(panel_, pixels_ - begin));
      const double share = rows / (before + rows);
      for (size_t c = 0; c < means.size(); ++c) {
        const double step = static_cast<double>(part[c]) - means[c];
        means[c] += step * share;
        squares[c] += static_cast<double>(part[means.size() + c]) + step * step * before * share;
      }
    }
    for (size_t c = 0; c < means.size(); ++c) {
      mean[c] = static_cast<T>(means[c]);
      variance[c] = static_cast<T>(squares[c] / static_cast<double>(pixels_));
    }
  }

 private:
  int64_t pixels_, columns_, panel_;
  std::vector<T> parts_;
};

NormScales scales_of(const BatchNorm2d& norm, const at::Tensor& mean, const at::Tensor& variance);
/// Of the running statistics, as in evaluation.
NormScales running_scales(const BatchNorm2d& norm);
/// Moves the running statistics as at::batch_norm does: the variance unbiased.
void move_statistics(const BatchNorm2d& norm, const at::Tensor& mean, const at::Tensor& variance, int64_t pixels);
/// Of the batch x in training, whose running statistics it moves; else of these.
NormScales norm_scales(const BatchNorm2d& norm, const at::Tensor& x);

/// max(0, norm) of the first `columns`; with `more`, of the sum with that.
at::Tensor normalised_rows(const at::Tensor& x, int64_t columns, const NormScales& scales, const at::Tensor& more = {});
/// The way back through max(0, norm(x)), or through max(0, norm(x) + more) with the `result` of that, with statistics
/// of the batch. `d` becomes the gradient behind the ReLU, which is that of `more`; `dx` that of x. d may be dy, and
/// dx may be d.
NormGradients norm_back(const at::Tensor& x, const NormScales& scales, const at::Tensor& gamma, const at::Tensor& dy,
                        const at::Tensor& result, const at::Tensor& d, const at::Tensor& dx);

}  // namespace dtrain
