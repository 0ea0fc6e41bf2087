#pragma once
#include <cstdint>

#include "dtrain/model/row_kernels.hpp"

namespace dtrain {

/// One line of a picture with its channels apart: channel c of pixel p is at data[c·stride + p]. Not owned. Memory is
/// there from `lanes` (of ConvKernels) before pixel 0 to twice as many behind the last; pixels −1 and those from the
/// picture's width on are 0 where a convolution reads them.
template <class T>
struct Planes {
  T* data = nullptr;
  int64_t stride = 0;

  Planes at(int64_t channel, int64_t pixel = 0) const { return {data + channel * stride + pixel, stride}; }
};

/// What of a norm's way back follows from sums over the whole batch: dx = d·scale − (x − mean)·slope − offset. One
/// element per channel.
template <class T>
struct CentreScales {
  const T* scale = nullptr;
  const T* slope = nullptr;
  const T* offset = nullptr;
};

/// Some neighbouring lines, as planes: `count` of dy and, from the one before to the one behind, count + 2 of x.
template <class T>
struct LinesOf {
  int64_t pixels = 0, count = 0;
  const T* const* x = nullptr;
  const T* const* dy = nullptr;
};

/// 3x3 convolutions of few channels (double_conv.hpp), line by line, without LibTorch: a vector holds neighbouring
/// pixels of one channel, so that its lanes are full however few channels there are. A library's kernel for NHWC memory
/// fills them with channels. One set for each instruction set, of one source, chosen as RowKernels are and with the
/// same promise about bits. `pixels` may be any number, channels too; no two arguments overlap unless it is said.
template <class T>
struct ConvKernels {
  int64_t lanes = 1;  ///< pixels that are computed at once
  int64_t tile = 1;   ///< outputs that are computed at once: where there are fewer, planes and sums have room for all

  /// to(c, p) = from[p·channels + c], a line of NHWC memory; behind the last pixel 0.
  void (*to_planes)(int64_t pixels, int64_t channels, const T* from, Planes<T> to);
  /// And back.
  void (*to_pixels)(int64_t pixels, int64_t channels, Planes<const T> from, T* to);

  /// y = max(0, x·scale + shift); behind the last pixel 0.
  void (*normalise)(int64_t pixels, int64_t channels, Planes<const T> x, ColumnScales<T> norm, Planes<T> y);
  /// For each channel: mean[c], and squares[c] = Σ (x − mean)².
  void (*moments)(int64_t pixels, int64_t channels, Planes<const T> x, T* mean, T* squares);
  /// With d = dy where x·scale + shift is above 0, else 0, for each channel: sum[c] = Σ d, centred[c] = Σ d·(x − mean).
  void (*back_sums)(int64_t pixels, int64_t channels, Planes<const T> dy, Planes<const T> x, ColumnScales<T> norm,
                    T* sum, T* centred);
  /// The way back through a norm and ReLU: the same d, then `centre` of it; behind the last pixel 0. dx may be dy.
  void (*norm_back)(int64_t pixels, int64_t channels, Planes<const T> dy, Planes<const T> x, ColumnScales<T> norm,
                    CentreScales<T> centre, Planes<T> dx);

  /// y(o, p) = Σ w[o][c][i][j] · lines[i](c, p + j − 1), for outputs rounded up to a multiple of `tile`, pixels to one
  /// of `lanes`. All lines have the stride of y. `weights`: packed as [outputs ÷ tile][in][3][3][tile].
  void (*convolve)(int64_t pixels, int64_t in, int64_t out, const T* const* lines, const T* weights, Planes<T> y);
  /// Adds to the weights' gradient Σ dy(o, p) · x(c, p + j − 1) over some lines, lane by lane: `sums` is [outputs ÷
  /// tile][in][3][tile][3][lanes]. All lines have this stride.
  void (*add_weights)(LinesOf<T> lines, int64_t in, int64_t out, int64_t stride, T* sums);
};

/// As row_kernels() chooses.
template <class T>
const ConvKernels<T>& conv_kernels();
template <>
const ConvKernels<float>& conv_kernels<float>();
template <>
const ConvKernels<double>& conv_kernels<double>();

// One per instruction set, row_kernels_*.cpp; those of x86 are nullptr elsewhere.
extern const ConvKernels<float> kPlainConv;
extern const ConvKernels<double> kPlainConvDouble;
extern const ConvKernels<float>* const kAvx2Conv;
extern const ConvKernels<float>* const kAvx512Conv;

}  // namespace dtrain
