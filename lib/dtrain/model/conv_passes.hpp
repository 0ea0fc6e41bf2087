#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "dtrain/model/row_passes.hpp"

/// 3x3 convolutions of a picture's lines by conv_kernels.hpp, two lines at a time, with the norm and ReLU before or
/// behind them in the same pass over memory. Pictures are rows [n·H·W, C] as in row_passes.hpp, float or double, `nhw`
/// = {n, H, W}; stride 1, padding 1, no bias; kernels are [out, in, 3, 3] of any strides. Threads take strips of lines,
/// whose sums are added up in their order: the same bits for any number of threads. Of two lines each follows from all
/// four that they read, so that what is infinite makes both no number.
namespace dtrain {

/// max(0, norm(rows)), or the rows themselves without `norm`. Without it they may come in several parts, whose channels
/// follow one another.
struct ConvInput {
  std::vector<at::Tensor> parts;
  const NormScales* norm = nullptr;
};

struct ConvOutput {
  at::Tensor rows;
  at::Tensor mean, variance;  ///< [out], biased
};
ConvOutput convolved(const ConvInput& x, at::IntArrayRef nhw, const at::Tensor& kernel);

/// y = max(0, norm(convolution)).
struct RectifiedConv {
  at::Tensor kernel;
  NormScales norm;
};
struct EvaluatedPair {
  at::Tensor rows;  ///< [n·H·W, out], y of the second
  at::Tensor pooled;  ///< [n·⌊H/2⌋·⌊W/2⌋, out], the largest of each 2 × 2 pixels of that; undefined unless asked for
};
/// One behind the other, in one pass over memory that leaves nothing of the first.
EvaluatedPair evaluated_pair(const ConvInput& x, at::IntArrayRef nhw, const RectifiedConv& first,
                             const RectifiedConv& second, bool with_pooled);

/// Of a norm behind which a ReLU is, over all pixels; [channels].
struct NormSums {
  at::Tensor sum;      ///< Σ d, where d is the gradient behind the ReLU
  at::Tensor centred;  ///< Σ d·(x − mean)
};
/// `gradient` is that of max(0, norm(rows)).
NormSums norm_sums(const at::Tensor& gradient, const at::Tensor& rows, const NormScales& norm, at::IntArrayRef nhw);

/// The way back through max(0, norm(rows)), as far as it is the same for all pixels.
struct NormCentre {
  NormGradients gradients;          ///< of the norm's weight and bias
  at::Tensor scale, slope, offset;  ///< CentreScales
};
NormCentre norm_centre(const NormSums& sums, const NormScales& norm, const at::Tensor& gamma, int64_t pixels);

/// What comes back to a convolution: `gradient` is that of max(0, norm(rows)), `rows` what the convolution gave.
struct ConvReturn {
  at::Tensor gradient, rows;
  const NormScales* norm = nullptr;
  const NormCentre* centre = nullptr;
};
struct ConvGradients {
  std::vector<at::Tensor> input;  ///< of max(0, norm(rows)), or of each part, all of them; empty unless asked for
  at::Tensor kernel;              ///< [out, in, 3, 3]; undefined unless it is asked for
  NormSums norm;                  ///< of the input's norm, where there is one and `input` is asked for
};
ConvGradients convolved_back(const ConvInput& x, const ConvReturn& y, at::IntArrayRef nhw, const at::Tensor& kernel,
                             bool of_input, bool of_kernel);

}  // namespace dtrain
