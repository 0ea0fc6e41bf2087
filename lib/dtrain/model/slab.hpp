#pragma once
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dtrain/model/layers.hpp"
#include "dtrain/model/row_kernels.hpp"

/// The passes over memory that the nodes of dense_slab.cpp are made of. Matrices are dense tensors [rows, channels],
/// float or double; `pixels` is the number of rows of the slab.
namespace dtrain {

template <class T>
Rows<T> rows_of(const at::Tensor& matrix, int64_t column = 0) {
  return {matrix.data_ptr<T>() + column, matrix.stride(0)};
}
template <class T>
Rows<const T> const_rows(Rows<T> rows) {
  return {rows.data, rows.stride};
}

/// [n·H·W, C] as [n, C, H, W] in channels-last: no copy.
at::Tensor as_picture(const at::Tensor& rows, at::IntArrayRef nhw);
/// And back: no copy if it is in channels-last.
at::Tensor as_rows(const at::Tensor& picture);

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

struct ProductGradients {
  NormGradients norm;
  at::Tensor kernel;  ///< [out, channels]
};

/// The values of a block, and on the way back their gradients.
struct Slab {
  Slab(at::IntArrayRef nhw, int64_t channels, bool training, const at::TensorOptions& options);

  /// Copies [pixels, C] to the next channels, and finds their mean and variance.
  void append(const at::Tensor& rows);
  /// Of a norm over all channels so far; in training moves its running statistics.
  NormScales scales(const BatchNorm2d& norm) const;
  /// max(0, norm) of all channels so far.
  at::Tensor normalised(const NormScales& scales) const;
  /// The mean of each 2 × 2 of it, [n·⌊H/2⌋·⌊W/2⌋, channels].
  at::Tensor pooled(const NormScales& scales) const;
  /// max(0, norm) · kernelᵀ [pixels, out], and in training the scales of `after`, the norm of that; else of its running
  /// statistics.
  at::Tensor product(const NormScales& scales, const at::Tensor& kernel, const BatchNorm2d& after,
                     NormScales& middle) const;

  /// Before the first of these, which must be `normalised_back` or `pooled_back`: they set G, product_back() adds.
  /// `gradient` is that of normalised(), pooled() or product() (without `after`).
  NormGradients normalised_back(const NormScales& scales, const at::Tensor& gamma, const at::Tensor& gradient);
  NormGradients pooled_back(const NormScales& scales, const at::Tensor& gamma, const at::Tensor& gradient);
  ProductGradients product_back(const NormScales& scales, const at::Tensor& gamma, const at::Tensor& kernel,
                                const at::Tensor& gradient);
  /// The gradient of channels whose readers have all been reached: (G − mean(G) − x̂·mean(x̂·G))/σ [pixels, count].
  at::Tensor own_gradient(int64_t first, int64_t count) const;

  std::vector<int64_t> nhw;
  int64_t pixels;
  int64_t filled = 0;  ///< channels that are there
  bool training;
  at::Tensor values;                   ///< [pixels, channels]
  at::Tensor mean, variance, inverse;  ///< [channels], of the batch
  at::Tensor gradients;                ///< G [pixels, channels]
  at::Tensor sum_g, sum_g_x_hat;       ///< [channels]: Σ γ·dβ, Σ γ·dγ

 private:
  template <class T, class Fill>
  NormGradients first_back(const NormScales& scales, const at::Tensor& gamma, int64_t panel, const Fill& fill);
  NormGradients finish(const NormScales& scales, const at::Tensor& gamma, const at::Tensor& sum,
                       const at::Tensor& centred);
};

/// max(0, norm) of [rows, channels].
at::Tensor normalised_rows(const at::Tensor& x, int64_t columns, const NormScales& scales);
/// y = a · b for a [rows, depth], b [depth, columns].
at::Tensor multiplied(const at::Tensor& a, const at::Tensor& b);
/// aᵀ · b for a [rows, height], b [rows, columns].
at::Tensor transposed_product(const at::Tensor& a, const at::Tensor& b);
/// The way back through max(0, norm(x)) with statistics of the batch, in place.
NormGradients norm_back(const at::Tensor& x, const NormScales& scales, const at::Tensor& gamma,
                        const at::Tensor& gradient);

}  // namespace dtrain
