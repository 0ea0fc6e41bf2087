#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "dtrain/model/row_passes.hpp"

namespace dtrain {

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

}  // namespace dtrain
