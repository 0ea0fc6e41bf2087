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

/// 3x3 convolutions of few channels (double_conv.hpp), by lines, without LibTorch: a vector holds neighbouring
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

  /// y = max(0, x·scale + shift); behind the last pixel 0. y may be x.
  void (*normalise)(int64_t pixels, int64_t channels, Planes<const T> x, ColumnScales<T> norm, Planes<T> y);
  /// y(c, p) = the largest of line(c, 2p), line(c, 2p + 1) and of the line below it likewise, for half as many pixels,
  /// rounded down, in this order: of equals the first, and no number if one of them is none. It reads up to 2·lanes
  /// together, and what y has behind its pixels may be anything.
  void (*halve)(int64_t pixels, int64_t channels, Planes<const T> line, Planes<const T> below, Planes<T> y);
  /// For each channel: mean[c], and squares[c] = Σ (x − mean)².
  void (*moments)(int64_t pixels, int64_t channels, Planes<const T> x, T* mean, T* squares);
  /// With d = dy where x·scale + shift is above 0, else 0, for each channel: sum[c] = Σ d, centred[c] = Σ d·(x − mean).
  void (*back_sums)(int64_t pixels, int64_t channels, Planes<const T> dy, Planes<const T> x, ColumnScales<T> norm,
                    T* sum, T* centred);
  /// The way back through a norm and ReLU: the same d, then `centre` of it; behind the last pixel 0. dx may be dy.
  void (*norm_back)(int64_t pixels, int64_t channels, Planes<const T> dy, Planes<const T> x, ColumnScales<T> norm,
                    CentreScales<T> centre, Planes<T> dx);

  /// Four neighbouring lines x, one below the other, as convolve() reads them: to(0) = x(0) − x(2), to(1) = x(1) +
  /// x(2), to(2) = x(2) − x(1), to(3) = x(1) − x(3); pixels rounded up to a multiple of `lanes`. All have this stride.
  void (*mix)(int64_t pixels, int64_t channels, int64_t stride, const T* const* x, T* const* to);
  /// Two lines of a convolution by Winograd's minimal filtering F(2, 3) down the picture: with m(k, o, p) =
  /// Σ w[o][k][c][j] · mixed[k](c, p + j − 1) they are m(0) + m(1) + m(2) and m(1) − m(2) − m(3), for outputs rounded
  /// up to a multiple of `tile`, pixels to one of `lanes`. All lines have the stride of y. `weights`: packed as
  /// [outputs ÷ tile][4][in][3][tile], of a kernel's lines g: g(0), (g(0) + g(1) + g(2)) ÷ 2, (g(0) − g(1) + g(2)) ÷ 2,
  /// g(2).
  void (*convolve)(int64_t pixels, int64_t in, int64_t out, const T* const* mixed, const T* weights, Planes<T> y,
                   Planes<T> below);
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
