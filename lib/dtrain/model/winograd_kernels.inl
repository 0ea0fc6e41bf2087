// The loops of winograd_kernels.hpp, compiled once for each instruction set, as row_kernels.inl is.
#pragma once
#include "dtrain/model/winograd_kernels.hpp"

namespace dtrain {
namespace {

/// kBytes: of a vector register, which holds neighbouring channels.
template <class T, int kBytes>
struct WinogradLoops {
  static constexpr int64_t kWidth = kBytes / sizeof(T);
  using Vector __attribute__((vector_size(kBytes))) = T;
  using Unaligned __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias)) = T;

  static Vector load(const T* p) { return *reinterpret_cast<const Unaligned*>(p); }
  static void store(T* p, Vector v) { *reinterpret_cast<Unaligned*>(p) = v; }

  // The matrices of the paper, section 4.1, each times a column of kFrom.
  struct Input {  // Bᵀ
    static constexpr int kFrom = 4, kTo = 4;
    static void run(const Vector* x, Vector* y) {
      y[0] = x[0] - x[2];
      y[1] = x[1] + x[2];
      y[2] = x[2] - x[1];
      y[3] = x[1] - x[3];
    }
  };
  struct Kernel {  // G
    static constexpr int kFrom = 3, kTo = 4;
    static void run(const Vector* x, Vector* y) {
      const Vector outer = (x[0] + x[2]) * T(0.5), middle = x[1] * T(0.5);
      y[0] = x[0];
      y[1] = outer + middle;
      y[2] = outer - middle;
      y[3] = x[2];
    }
  };
  struct Output {  // Aᵀ
    static constexpr int kFrom = 4, kTo = 2;
    static void run(const Vector* x, Vector* y) {
      y[0] = x[0] + x[1] + x[2];
      y[1] = x[1] - x[2] - x[3];
    }
  };
  struct Gradient {  // A
    static constexpr int kFrom = 2, kTo = 4;
    static void run(const Vector* x, Vector* y) {
      y[0] = x[0];
      y[1] = x[0] + x[1];
      y[2] = x[0] - x[1];
      y[3] = -x[1];
    }
  };
  struct KernelGradient {  // Gᵀ
    static constexpr int kFrom = 4, kTo = 3;
    static void run(const Vector* x, Vector* y) {
      const Vector half = (x[1] + x[2]) * T(0.5);
      y[0] = x[0] + half;
      y[1] = (x[1] - x[2]) * T(0.5);
      y[2] = x[3] + half;
    }
  };

  // The matrix times x times its transpose: of each row of x, then of the columns of what that gives.
  template <class Matrix>
  static void both_sides(const Vector (&x)[Matrix::kFrom * Matrix::kFrom], Vector (&y)[Matrix::kTo * Matrix::kTo]) {
    Vector half[Matrix::kTo][Matrix::kFrom];
#pragma GCC unroll 4
    for (int i = 0; i < Matrix::kFrom; ++i) {
      Vector row[Matrix::kTo];
      Matrix::run(x + i * Matrix::kFrom, row);
#pragma GCC unroll 4
      for (int j = 0; j < Matrix::kTo; ++j) half[j][i] = row[j];
    }
#pragma GCC unroll 4
    for (int j = 0; j < Matrix::kTo; ++j) {
      Vector column[Matrix::kTo];
      Matrix::run(half[j], column);
#pragma GCC unroll 4
      for (int i = 0; i < Matrix::kTo; ++i) y[i * Matrix::kTo + j] = column[i];
    }
  }

  template <class Matrix>
  static void from(int64_t channels, const T* const* pixels, T* places, int64_t stride) {
    for (int64_t c = 0; c < channels; c += kWidth) {
      Vector x[Matrix::kFrom * Matrix::kFrom], y[16];
#pragma GCC unroll 16
      for (int i = 0; i < Matrix::kFrom * Matrix::kFrom; ++i) x[i] = load(pixels[i] + c);
      both_sides<Matrix>(x, y);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) store(places + i * stride + c, y[i]);
    }
  }

  template <class Matrix>
  static void to(int64_t channels, const T* places, int64_t stride, T* const* pixels) {
    for (int64_t c = 0; c < channels; c += kWidth) {
      Vector x[16], y[Matrix::kTo * Matrix::kTo];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) x[i] = load(places + i * stride + c);
      both_sides<Matrix>(x, y);
#pragma GCC unroll 16
      for (int i = 0; i < Matrix::kTo * Matrix::kTo; ++i) store(pixels[i] + c, y[i]);
    }
  }

  static constexpr WinogradKernels<T> all(bool pays) {
    return {.pays = pays,
            .from_input = from<Input>,
            .from_kernel = from<Kernel>,
            .to_output = to<Output>,
            .from_gradient = from<Gradient>,
            .to_kernel = to<KernelGradient>};
  }
};

}  // namespace
}  // namespace dtrain
