// The loops of row_kernels.hpp, compiled once for each instruction set: each including file has its own options
// (CMakeLists.txt), and everything here is local to it, so that no code for a newer processor can end up elsewhere.
#pragma once
#include <cstring>
#include <type_traits>
#include <utility>

#include "dtrain/model/row_kernels.hpp"

namespace dtrain {
namespace {

/// kBytes: of a vector register. kTileRows × 2 registers hold a tile of a product. PastCaches: how a vector is stored
/// so, and the fence behind such stores; void where there is no way.
template <class T, int kBytes, int kTileRows, class PastCaches = void>
struct Loops {
  static constexpr int64_t kWidth = kBytes / sizeof(T);
  static constexpr int64_t kTile = 2 * kWidth;
  using Vector __attribute__((vector_size(kBytes))) = T;
  using Unaligned __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias)) = T;
  struct Pair {
    Vector low, high;
  };

  static Vector load(const T* p) { return *reinterpret_cast<const Unaligned*>(p); }
  static void store(T* p, Vector v) { *reinterpret_cast<Unaligned*>(p) = v; }
  template <bool kStreamed>
  static void put(T* p, Vector v) {
    if constexpr (kStreamed && !std::is_void_v<PastCaches>)
      PastCaches::store(p, v);
    else
      store(p, v);
  }
  // Behind such stores, before others may read what they wrote.
  template <bool kStreamed>
  static void finish() {
    if constexpr (kStreamed && !std::is_void_v<PastCaches>) PastCaches::finish();
  }

  static Pair pair(const T* p) { return {load(p), load(p + kWidth)}; }

  template <int... kLane>
  static Vector spread(T x, std::integer_sequence<int, kLane...>) {
    return Vector{(static_cast<void>(kLane), x)...};
  }
  static Vector spread(T x) { return spread(x, std::make_integer_sequence<int, kWidth>{}); }

  // Not a number stays what it is, in both.
  static Vector rectified(Vector x) { return x < 0 ? Vector{} : x; }
  static Vector where_above_0(Vector y, Vector d) { return y <= 0 ? Vector{} : d; }

  template <bool kRectify, bool kStreamed>
  static void scale_rows(int64_t rows, int64_t columns, Rows<const T> x, ColumnScales<T> norm, Rows<T> y) {
    for (int64_t r = 0; r < rows; ++r) {
      const T* from = x.at(r).data;
      T* to = y.at(r).data;
      for (int64_t c = 0; c < columns; c += kWidth) {
        const Vector v = load(from + c) * load(norm.scale + c) + load(norm.shift + c);
        put<kStreamed>(to + c, kRectify ? rectified(v) : v);
      }
    }
    finish<kStreamed>();
  }

  static void normalise(int64_t rows, int64_t columns, Rows<const T> x, ColumnScales<T> norm, Rows<T> y,
                        bool streamed) {
    (streamed ? scale_rows<true, true> : scale_rows<true, false>)(rows, columns, x, norm, y);
  }

  static void scale(int64_t rows, int64_t columns, Rows<const T> x, ColumnScales<T> norm, Rows<T> y, bool streamed) {
    (streamed ? scale_rows<false, true> : scale_rows<false, false>)(rows, columns, x, norm, y);
  }

  static void moments(int64_t rows, int64_t columns, Rows<const T> x, T* mean, T* squares) {
    const Vector share = spread(T(1) / static_cast<T>(rows));
    for (int64_t c = 0; c < columns; c += kTile) {
      Pair sum{}, spread_out{};
      for (int64_t r = 0; r < rows; ++r) {
        const Pair v = pair(x.at(r, c).data);
        sum.low += v.low;
        sum.high += v.high;
      }
      sum.low *= share;
      sum.high *= share;
      for (int64_t r = 0; r < rows; ++r) {
        const Pair v = pair(x.at(r, c).data);
        spread_out.low += (v.low - sum.low) * (v.low - sum.low);
        spread_out.high += (v.high - sum.high) * (v.high - sum.high);
      }
      store(mean + c, sum.low);
      store(mean + c + kWidth, sum.high);
      store(squares + c, spread_out.low);
      store(squares + c + kWidth, spread_out.high);
    }
  }

  struct BackSums {
    Vector sum, centred;
  };

  static Vector back(Vector dy, Vector x, Vector y, Vector mean, BackSums& sums) {
    const Vector d = where_above_0(y, dy);
    sums.sum += d;
    sums.centred += d * (x - mean);
    return d;
  }

  static void add(T* to, Vector v) { store(to, load(to) + v); }

  template <bool kStreamed>
  static void sum_rows(int64_t rows, int64_t columns, Rows<const T> x, ColumnScales<T> norm, Rows<const T> more,
                       Rows<T> y) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; c += kWidth)
        put<kStreamed>(y.at(r, c).data, rectified(load(x.at(r, c).data) * load(norm.scale + c) + load(norm.shift + c) +
                                                  load(more.at(r, c).data)));
    finish<kStreamed>();
  }

  static void normalise_sum(int64_t rows, int64_t columns, Rows<const T> x, ColumnScales<T> norm, Rows<const T> more,
                            Rows<T> y, bool streamed) {
    (streamed ? sum_rows<true> : sum_rows<false>)(rows, columns, x, norm, more, y);
  }

  static void rectify_back(int64_t rows, int64_t columns, Rows<const T> dy, Rows<const T> x, ColumnScales<T> norm,
                           Rows<T> d, T* sum, T* centred) {
    for (int64_t c = 0; c < columns; c += kWidth) {
      const Vector scale = load(norm.scale + c), shift = load(norm.shift + c), mean = load(norm.mean + c);
      BackSums sums{};
      for (int64_t r = 0; r < rows; ++r) {
        const Vector value = load(x.at(r, c).data);
        store(d.at(r, c).data, back(load(dy.at(r, c).data), value, value * scale + shift, mean, sums));
      }
      add(sum + c, sums.sum);
      add(centred + c, sums.centred);
    }
  }

  static void rectify_back_by(int64_t rows, int64_t columns, Rows<const T> dy, Rows<const T> x, const T* means,
                              Rows<const T> result, Rows<T> d, T* sum, T* centred) {
    for (int64_t c = 0; c < columns; c += kWidth) {
      const Vector mean = load(means + c);
      BackSums sums{};
      for (int64_t r = 0; r < rows; ++r)
        store(d.at(r, c).data,
              back(load(dy.at(r, c).data), load(x.at(r, c).data), load(result.at(r, c).data), mean, sums));
      add(sum + c, sums.sum);
      add(centred + c, sums.centred);
    }
  }

  template <bool kFirst>
  static void back_to_slab(int64_t rows, int64_t columns, Rows<T> dy, Rows<const T> x, ColumnScales<T> norm,
                           const T* gamma, Rows<T> gradient, T* sum, T* centred) {
    for (int64_t c = 0; c < columns; c += kWidth) {
      const Vector scale = load(norm.scale + c), shift = load(norm.shift + c), mean = load(norm.mean + c);
      const Vector factor = load(gamma + c);
      BackSums sums{};
      for (int64_t r = 0; r < rows; ++r) {
        const Vector value = load(x.at(r, c).data), result = value * scale + shift;
        T* place = dy.at(r, c).data;
        const Vector share = factor * back(load(place), value, result, mean, sums);
        store(place, rectified(result));
        T* total = gradient.at(r, c).data;
        if constexpr (kFirst)
          store(total, share);
        else
          add(total, share);
      }
      add(sum + c, sums.sum);
      add(centred + c, sums.centred);
    }
  }

  static void rectify_back_to_slab(int64_t rows, int64_t columns, Rows<T> dy, Rows<const T> x, ColumnScales<T> norm,
                                   const T* gamma, bool first, Rows<T> gradient, T* sum, T* centred) {
    (first ? back_to_slab<true> : back_to_slab<false>)(rows, columns, dy, x, norm, gamma, gradient, sum, centred);
  }

  template <bool kStreamed>
  static void centre_rows(int64_t rows, int64_t columns, Rows<const T> d, Rows<const T> x, const T* mean,
                          const T* scale, const T* slope, const T* offset, Rows<T> y) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; c += kWidth)
        put<kStreamed>(y.at(r, c).data, load(d.at(r, c).data) * load(scale + c) -
                                            (load(x.at(r, c).data) - load(mean + c)) * load(slope + c) -
                                            load(offset + c));
    finish<kStreamed>();
  }

  static void centre_back(int64_t rows, int64_t columns, Rows<const T> d, Rows<const T> x, const T* mean,
                          const T* scale, const T* slope, const T* offset, Rows<T> y, bool streamed) {
    (streamed ? centre_rows<true> : centre_rows<false>)(rows, columns, d, x, mean, scale, slope, offset, y);
  }

  // Bytes lie in the lanes of a vector: those of the first kWidth columns in the lowest byte of each, and so on. GCC 12
  // takes bytes apart one by one when they are to become wider numbers.
  using Numbers = decltype(Vector{} < Vector{});
  static constexpr int kBytesOfLane = sizeof(T);
  static constexpr int64_t kByteColumns = kBytes;

  static void largest(int64_t columns, const WindowPixels<T>& pixels, T* y, uint8_t* chosen) {
    for (int64_t c = 0; c < columns; c += kByteColumns) {
      Numbers bytes{};
      for (int k = 0; k < kBytesOfLane; ++k) {
        const int64_t at = c + k * kWidth;
        Vector most = load(pixels.values[0] + at);
        Numbers number = Numbers{} + pixels.number[0];
        for (int64_t i = 1; i < pixels.count; ++i) {
          const Vector value = load(pixels.values[i] + at);
          const Numbers larger = (value > most) | (value != value);
          most = larger ? value : most;
          number = larger ? Numbers{} + pixels.number[i] : number;
        }
        store(y + at, most);
        bytes |= number << (8 * k);
      }
      std::memcpy(chosen + c, &bytes, sizeof(bytes));
    }
  }

  static void sum_chosen(int64_t columns, const WindowPixels<T>& pixels, T* d) {
    for (int64_t c = 0; c < columns; c += kByteColumns)
      for (int k = 0; k < kBytesOfLane; ++k) {
        const int64_t at = c + k * kWidth;
        Vector sum{};
        for (int64_t i = 0; i < pixels.count; ++i) {
          Numbers bytes;
          std::memcpy(&bytes, pixels.chosen[i] + c, sizeof(bytes));
          sum += ((bytes >> (8 * k)) & 255) == pixels.number[i] ? load(pixels.values[i] + at) : Vector{};
        }
        store(d + at, sum);
      }
  }

  // Lanes with a bit of their number set change places with those of the other row without it.
  template <int kStep, int... kLane>
  static void swap_lanes(Vector& a, Vector& b, std::integer_sequence<int, kLane...>) {
    const Vector first = __builtin_shufflevector(a, b, ((kLane & kStep) != 0 ? kWidth + kLane - kStep : kLane)...);
    b = __builtin_shufflevector(a, b, ((kLane & kStep) != 0 ? kWidth + kLane : kLane + kStep)...);
    a = first;
  }
  // Row i's lane j becomes row j's lane i.
  template <int kStep = 1>
  static void transpose(Vector (&v)[kWidth]) {
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i)
      if ((i & kStep) == 0) swap_lanes<kStep>(v[i], v[i + kStep], std::make_integer_sequence<int, kWidth>{});
    if constexpr (int64_t{2} * kStep < kWidth) transpose<2 * kStep>(v);
  }

  static void pack(int64_t depth, int64_t columns, const T* from, int64_t row_stride, int64_t column_stride,
                   T* packed) {
    for (int64_t c = 0; c < columns; c += kTile, from += kTile * column_stride) {
      int64_t k = 0;
      if (row_stride == 1)  // a transposed matrix: its lines are read in order
        for (; k + kWidth <= depth; k += kWidth)
          for (int64_t half = 0; half < kTile; half += kWidth) {
            Vector v[kWidth];
#pragma GCC unroll 16
            for (int j = 0; j < kWidth; ++j) v[j] = load(from + k + (half + j) * column_stride);
            transpose(v);
#pragma GCC unroll 16
            for (int i = 0; i < kWidth; ++i) store(packed + (k + i) * kTile + half, v[i]);
          }
      for (; k < depth; ++k)
        for (int64_t j = 0; j < kTile; ++j) packed[k * kTile + j] = from[k * row_stride + j * column_stride];
      packed += depth * kTile;
    }
  }

  static void pack_across(int64_t rows, int64_t height, Rows<const T> a, T* across) {
    constexpr int64_t kInOrder = 16;  // rows that are read from their begin to their end, as the processor expects it
    for (int64_t first = 0; first < rows; first += kInOrder) {
      const int64_t last = rows - first < kInOrder ? rows : first + kInOrder;
      for (int64_t h = 0; h < height; h += kTileRows) {
        T* to = across + h * rows + first * kTileRows;
        const bool whole = height - h >= kTileRows;
        for (int64_t r = first; r < last; ++r, to += kTileRows)
          if (whole)
            std::memcpy(to, a.at(r, h).data, sizeof(T) * kTileRows);
          else
            for (int64_t j = 0; j < height - h; ++j) to[j] = a.at(r, h).data[j];
      }
    }
  }

  /// Where a product's operands are: element (r, k) of a at a[r·row + k·depth], row k of b's tile at b[k·b_depth].
  struct Operands {
    const T* a;
    int64_t row, depth;
    const T* b;
    int64_t b_depth;
  };

  // One tile of a product: kRows × kTile sums stay in registers.
  template <int kRows, bool kAdd, bool kStreamed>
  static void tile(int64_t depth, Operands from, Rows<T> y) {
    Pair sums[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums[r] = kAdd ? pair(y.at(r).data) : Pair{};
#pragma GCC unroll 4
    for (int64_t k = 0; k < depth; ++k) {
      const Pair b = pair(from.b);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Vector a = spread(from.a[r * from.row]);
        sums[r].low += a * b.low;
        sums[r].high += a * b.high;
      }
      from.a += from.depth;
      from.b += from.b_depth;
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      put<kStreamed>(y.at(r).data, sums[r].low);
      put<kStreamed>(y.at(r).data + kWidth, sums[r].high);
    }
  }

  using Tile = void (*)(int64_t depth, Operands from, Rows<T> y);
  template <bool kAdd, bool kStreamed, int... kLess>
  static Tile tile_of(int64_t rows, std::integer_sequence<int, kLess...>) {
    static constexpr Tile all[] = {tile<kLess + 1, kAdd, kStreamed>...};
    return all[rows - 1];
  }

  // `next_a` and `next_b`: from one tile to the next.
  template <bool kAdd, bool kStreamed>
  static void product(int64_t rows, int64_t columns, int64_t depth, Operands from, int64_t next_a, int64_t next_b,
                      Rows<T> y) {
    for (int64_t c = 0; c < columns; c += kTile, from.b += next_b) {
      Operands here = from;
      int64_t r = 0;
      for (; r + kTileRows <= rows; r += kTileRows, here.a += next_a)
        tile<kTileRows, kAdd, kStreamed>(depth, here, y.at(r, c));
      if (r < rows)
        tile_of<kAdd, kStreamed>(rows - r, std::make_integer_sequence<int, kTileRows - 1>{})(depth, here, y.at(r, c));
    }
    finish<kStreamed>();
  }

  static void multiply(int64_t rows, int64_t columns, int64_t depth, Rows<const T> a, const T* packed, Rows<T> y,
                       bool streamed) {
    (streamed ? product<false, true> : product<false, false>)(rows, columns, depth,
                                                              {a.data, a.stride, 1, packed, kTile},
                                                              kTileRows * a.stride, kTile * depth, y);
  }

  static void add_transposed_product(int64_t height, int64_t columns, int64_t rows, const T* across, Rows<const T> b,
                                     Rows<T> y) {
    product<true, false>(height, columns, rows, {across, 1, kTileRows, b.data, b.stride}, kTileRows * rows, kTile, y);
  }

  static constexpr RowKernels<T> all(const char* name) {
    return {.name = name,
            .tile = kTile,
            .tile_rows = kTileRows,
            .normalise = normalise,
            .scale = scale,
            .moments = moments,
            .normalise_sum = normalise_sum,
            .rectify_back = rectify_back,
            .rectify_back_by = rectify_back_by,
            .rectify_back_to_slab = rectify_back_to_slab,
            .centre_back = centre_back,
            .largest = largest,
            .sum_chosen = sum_chosen,
            .pack = pack,
            .multiply = multiply,
            .pack_across = pack_across,
            .add_transposed_product = add_transposed_product};
  }
};

}  // namespace
}  // namespace dtrain
