#pragma once
#include <cstdint>

namespace dtrain {

/// A matrix whose rows are pixels and whose columns are channels, as NHWC memory holds them: element (r, c) is at
/// data[r·stride + c]. Not owned.
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;

  Rows at(int64_t row, int64_t column = 0) const { return {data + row * stride + column, stride}; }
};

/// What one column's normalisation does to a value x: x·scale + shift, with the mean that scale and shift were made
/// from. One element per column.
template <class T>
struct ColumnScales {
  const T* scale = nullptr;
  const T* shift = nullptr;
  const T* mean = nullptr;

  ColumnScales at(int64_t column) const { return {scale + column, shift + column, mean + column}; }
};

/// Some of the pixels that lie in one window of a pooling, each with its number in the window, ascending.
template <class T>
struct WindowPixels {
  static constexpr int64_t kMost = 9;
  const T* values[kMost];        ///< one for each channel
  const uint8_t* chosen[kMost];  ///< on the way back: what RowKernels::largest wrote
  uint8_t number[kMost];
  int64_t count = 0;

  void add(const T* its_values, const uint8_t* its_chosen, int64_t its_number) {
    values[count] = its_values;
    chosen[count] = its_chosen;
    number[count++] = static_cast<uint8_t>(its_number);
  }
};

/// The loops of fused blocks (dense_slab.hpp) over a panel of rows that fits a cache, without LibTorch. There is one
/// set for each instruction set (row_kernels_*.cpp, of one source); each result is a fixed sequence of operations, so
/// that neither threads nor the size of a panel's neighbours change its bits, but two sets differ by rounding: where a
/// product and a sum are one instruction, it rounds once.
/// Numbers of columns must be multiples of `tile`; rows may be any number. No two arguments overlap unless it is said.
/// `streamed`: y is written past the caches, without fetching what was there, for results that the caches would not
/// keep until they are read; its rows then begin at multiples of 64 bytes. The same bits, and seen by other threads as
/// usual.
template <class T>
struct RowKernels {
  const char* name = "";  ///< of the instruction set
  int64_t tile = 1;       ///< columns that are computed at once; at most 32
  int64_t tile_rows = 1;  ///< and rows of a product

  /// y = max(0, x·scale + shift). y may be x.
  void (*normalise)(int64_t rows, int64_t columns, Rows<const T> x, ColumnScales<T> norm, Rows<T> y, bool streamed);

  /// y = x·scale + shift. y may be x.
  void (*scale)(int64_t rows, int64_t columns, Rows<const T> x, ColumnScales<T> norm, Rows<T> y, bool streamed);

  /// For each column: mean[c], and squares[c] = Σ (x − mean)².
  void (*moments)(int64_t rows, int64_t columns, Rows<const T> x, T* mean, T* squares);

  /// y = max(0, x·scale + shift + more). y may be x.
  void (*normalise_sum)(int64_t rows, int64_t columns, Rows<const T> x, ColumnScales<T> norm, Rows<const T> more,
                        Rows<T> y, bool streamed);

  /// The way back through max(0, x·scale + shift): d = dy where the result was above 0, else 0; d may be dy. Adds to
  /// each column: sum += Σ d, centred += Σ d·(x − mean).
  void (*rectify_back)(int64_t rows, int64_t columns, Rows<const T> dy, Rows<const T> x, ColumnScales<T> norm,
                       Rows<T> d, T* sum, T* centred);

  /// The same for a result that is at hand.
  void (*rectify_back_by)(int64_t rows, int64_t columns, Rows<const T> dy, Rows<const T> x, const T* mean,
                          Rows<const T> result, Rows<T> d, T* sum, T* centred);

  /// The same for a panel of a slab: dy is read and then replaced by max(0, x·scale + shift), what the product's
  /// gradient needs; gradient += gamma·d, or = with `first`.
  void (*rectify_back_to_slab)(int64_t rows, int64_t columns, Rows<T> dy, Rows<const T> x, ColumnScales<T> norm,
                               const T* gamma, bool first, Rows<T> gradient, T* sum, T* centred);

  /// y = d·scale − (x − mean)·slope − offset. y may be d.
  void (*centre_back)(int64_t rows, int64_t columns, Rows<const T> d, Rows<const T> x, const T* mean, const T* scale,
                      const T* slope, const T* offset, Rows<T> y, bool streamed);

  /// For each column the largest of at least one pixel, and its number: of equals the first; what is no number is the
  /// largest, the last of several. Here and in sum_chosen() columns are multiples of 64, and `chosen` has a byte for
  /// each of them, in an order of the set's own.
  void (*largest)(int64_t columns, const WindowPixels<T>& pixels, T* y, uint8_t* chosen);

  /// d = Σ values[i] where chosen[i] is number[i], in their order.
  void (*sum_chosen)(int64_t columns, const WindowPixels<T>& pixels, T* d);

  /// `packed` = the matrix whose element (k, c) is at from[k·row_stride + c·column_stride], as multiply() reads it:
  /// depth·columns elements.
  void (*pack)(int64_t depth, int64_t columns, const T* from, int64_t row_stride, int64_t column_stride, T* packed);

  /// y = a · b: a [rows, depth], b [depth, columns] packed.
  void (*multiply)(int64_t rows, int64_t columns, int64_t depth, Rows<const T> a, const T* packed, Rows<T> y,
                   bool streamed);

  /// `across` = a [rows, height], as add_transposed_product() reads it: rows elements for each of its columns, whose
  /// number is rounded up to a multiple of `tile_rows`.
  void (*pack_across)(int64_t rows, int64_t height, Rows<const T> a, T* across);

  /// y += aᵀ · b: a [rows, height] packed across, b [rows, columns], y [height, columns].
  void (*add_transposed_product)(int64_t height, int64_t columns, int64_t rows, const T* across, Rows<const T> b,
                                 Rows<T> y);
};

/// The set for the instructions that LibTorch's own kernels use here (at::get_cpu_capability(), which
/// ATEN_CPU_CAPABILITY limits). For double it is the plain one, which serves as the reference.
template <class T>
const RowKernels<T>& row_kernels();
template <>
const RowKernels<float>& row_kernels<float>();
template <>
const RowKernels<double>& row_kernels<double>();

// One per instruction set, row_kernels_*.cpp; those of x86 are nullptr elsewhere.
extern const RowKernels<float> kPlainRows;
extern const RowKernels<double> kPlainRowsDouble;
extern const RowKernels<float>* const kAvx2Rows;
extern const RowKernels<float>* const kAvx512Rows;

}  // namespace dtrain
