#pragma once
#include <cstdint>

#include "dtrain/model/row_kernels.hpp"

namespace dtrain {

/// The transforms of Winograd's minimal filtering F(2×2, 3×3) (winograd.hpp), without LibTorch: between pixels, or the
/// taps of a kernel, of which each argument has a pointer to its channels, row by row, and 16 places, of which place p
/// has its channels from places[p·stride] on. One set for each instruction set, of one source, chosen as RowKernels are
/// and with the same promise about bits. Numbers of channels are multiples of RowKernels::tile; no two arguments
/// overlap, but pixels that are read may be the same.
template <class T>
struct WinogradKernels {
  using From = void (*)(int64_t channels, const T* const* pixels, T* places, int64_t stride);
  using To = void (*)(int64_t channels, const T* places, int64_t stride, T* const* pixels);

  bool pays = false;  ///< whether networks use it: where steps were measured as faster than by oneDNN's convolutions,
                      ///< and for double, the reference

  From from_input = nullptr;     ///< Bᵀ·d·B of 4 × 4 pixels
  From from_kernel = nullptr;    ///< G·g·Gᵀ of 3 × 3 taps
  To to_output = nullptr;        ///< Aᵀ·m·A: 2 × 2 pixels
  From from_gradient = nullptr;  ///< A·dy·Aᵀ of 2 × 2 pixels: to_output()'s way back
  To to_kernel = nullptr;        ///< Gᵀ·u·G: 3 × 3 taps, from_kernel()'s way back
};

/// As row_kernels() chooses.
template <class T>
const WinogradKernels<T>& winograd_kernels();
template <>
const WinogradKernels<float>& winograd_kernels<float>();
template <>
const WinogradKernels<double>& winograd_kernels<double>();

// One per instruction set, row_kernels_*.cpp; those of x86 are nullptr elsewhere.
extern const WinogradKernels<float> kPlainWinograd;
extern const WinogradKernels<double> kPlainWinogradDouble;
extern const WinogradKernels<float>* const kAvx2Winograd;
extern const WinogradKernels<float>* const kAvx512Winograd;

}  // namespace dtrain
