// The loops of conv_kernels.hpp, compiled once for each instruction set, as row_kernels.inl is.
#pragma once
#include <cstring>
#include <utility>

#include "dtrain/model/conv_kernels.hpp"

namespace dtrain {
namespace {

/// kBytes: of a vector register. A tile of a convolution holds kTile × kAcross sums in registers, one of the weights'
/// gradient kTile × 3.
template <class T, int kBytes, int kTile, int kAcross>
struct ConvLoops {
  static constexpr int64_t kLanes = kBytes / sizeof(T);
  static constexpr int64_t kGroup = 8;                                        // channels that change places at once
  static constexpr int64_t kPixels = kLanes >= kGroup ? kLanes / kGroup : 1;  // whose channels then are in a vector
  using Vector __attribute__((vector_size(kBytes))) = T;
  using Unaligned __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias)) = T;

  static Vector load(const T* p) { return *reinterpret_cast<const Unaligned*>(p); }
  static void store(T* p, Vector v) { *reinterpret_cast<Unaligned*>(p) = v; }

  static constexpr std::make_integer_sequence<int, kLanes> kEach{};
  template <int... kLane>
  static Vector spread(T x, std::integer_sequence<int, kLane...>) {
    return Vector{(static_cast<void>(kLane), x)...};
  }
  static Vector spread(T x) { return spread(x, kEach); }
  template <int... kLane>
  static T total(Vector v, std::integer_sequence<int, kLane...>) {
    return (... + v[kLane]);
  }
  static T total(Vector v) { return total(v, kEach); }

  // Of two vectors as one of twice the length: every second element, from the first or the second on.
  template <int kFrom, int... kLane>
  static Vector every_second(Vector a, Vector b, std::integer_sequence<int, kLane...>) {
    return __builtin_shufflevector(a, b, (2 * kLane + kFrom)...);
  }
  // The elements of two vectors by turns, those of their first halves or of their second.
  template <int kFrom, int... kLane>
  static Vector by_turns(Vector a, Vector b, std::integer_sequence<int, kLane...>) {
    return __builtin_shufflevector(a, b, (kFrom + kLane / 2 + kLane % 2 * kLanes)...);
  }

  // Eight vectors of pixels with eight channels each become eight of one channel each: three rounds, each of which
  // takes one bit of the channel's number out of the place within a vector.
  static void split(Vector (&v)[kGroup]) {
    for (int round = 0; round < 3; ++round) {
      Vector next[kGroup];
#pragma GCC unroll 4
      for (int i = 0; i < kGroup / 2; ++i) {
        next[i] = every_second<0>(v[2 * i], v[2 * i + 1], kEach);
        next[i + kGroup / 2] = every_second<1>(v[2 * i], v[2 * i + 1], kEach);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kGroup; ++i) v[i] = next[i];
    }
  }

  static void merge(Vector (&v)[kGroup]) {
    for (int round = 0; round < 3; ++round) {
      Vector next[kGroup];
#pragma GCC unroll 4
      for (int i = 0; i < kGroup / 2; ++i) {
        next[2 * i] = by_turns<0>(v[i], v[i + kGroup / 2], kEach);
        next[2 * i + 1] = by_turns<kLanes / 2>(v[i], v[i + kGroup / 2], kEach);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kGroup; ++i) v[i] = next[i];
    }
  }

  // Eight channels of kPixels pixels.
  using Group __attribute__((vector_size(kGroup * sizeof(T)), aligned(sizeof(T)), may_alias)) = T;
  template <int... kLane>
  static Vector load_groups(const T* from, int64_t channels, std::integer_sequence<int, kLane...>) {
    const Group first = *reinterpret_cast<const Group*>(from);
    if constexpr (kLanes == kGroup)
      return first;
    else
      return __builtin_shufflevector(first, *reinterpret_cast<const Group*>(from + channels), kLane...);
  }
  template <int... kLane>
  static void store_groups(Vector v, T* to, int64_t channels, std::integer_sequence<int, kLane...>) {
    *reinterpret_cast<Group*>(to) = __builtin_shufflevector(v, v, kLane...);
    if constexpr (kLanes > kGroup)
      *reinterpret_cast<Group*>(to + channels) = __builtin_shufflevector(v, v, (kGroup + kLane)...);
  }

  // How many pixels the vector loops below take; the plain loops behind them take the others.
  static int64_t in_groups(int64_t pixels, int64_t channels) {
    return kLanes >= kGroup && channels % kGroup == 0 ? pixels / kLanes * kLanes : 0;
  }

  static void clear_behind(int64_t pixels, int64_t channels, Planes<T> planes) {
    const int64_t end = (pixels + kLanes - 1) / kLanes * kLanes + kLanes;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = pixels; p < end; ++p) planes.at(c, p).data[0] = 0;
  }

  static void to_planes(int64_t pixels, int64_t channels, const T* from, Planes<T> to) {
    const int64_t grouped = in_groups(pixels, channels);
    if constexpr (kLanes >= kGroup)
      for (int64_t p = 0; p < grouped; p += kLanes)
        for (int64_t c = 0; c < channels; c += kGroup) {
          Vector v[kGroup];
          const T* place = from + p * channels + c;
          for (int i = 0; i < kGroup; ++i)  // elements of the next line, as many as are read here
            __builtin_prefetch(from + pixels * channels + p * channels + (c + i) * kLanes);
#pragma GCC unroll 8
          for (int i = 0; i < kGroup; ++i, place += kPixels * channels) v[i] = load_groups(place, channels, kEach);
          split(v);
          T* plane = to.at(c, p).data;
#pragma GCC unroll 8
          for (int i = 0; i < kGroup; ++i, plane += to.stride) store(plane, v[i]);
        }
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = grouped; p < pixels; ++p) *to.at(c, p).data = from[p * channels + c];
    clear_behind(pixels, channels, to);
  }

  static void to_pixels(int64_t pixels, int64_t channels, Planes<const T> from, T* to) {
    const int64_t grouped = in_groups(pixels, channels);
    if constexpr (kLanes >= kGroup)
      for (int64_t p = 0; p < grouped; p += kLanes)
        for (int64_t c = 0; c < channels; c += kGroup) {
          Vector v[kGroup];
          const T* plane = from.at(c, p).data;
#pragma GCC unroll 8
          for (int i = 0; i < kGroup; ++i, plane += from.stride) v[i] = load(plane);
          merge(v);
          T* place = to + p * channels + c;
#pragma GCC unroll 8
          for (int i = 0; i < kGroup; ++i, place += kPixels * channels)
            store_groups(v[i], place, channels, std::make_integer_sequence<int, kGroup>{});
        }
    for (int64_t p = grouped; p < pixels; ++p)
      for (int64_t c = 0; c < channels; ++c) to[p * channels + c] = *from.at(c, p).data;
  }

  // Not a number stays what it is, in both.
  static Vector rectified(Vector x) { return x < 0 ? Vector{} : x; }
  static Vector where_above_0(Vector y, Vector d) { return y <= 0 ? Vector{} : d; }

  static void normalise(int64_t pixels, int64_t channels, Planes<const T> x, ColumnScales<T> norm, Planes<T> y) {
    for (int64_t c = 0; c < channels; ++c) {
      const Vector scale = spread(norm.scale[c]), shift = spread(norm.shift[c]);
      for (int64_t p = 0; p < pixels; p += kLanes)
        store(y.at(c, p).data, rectified(load(x.at(c, p).data) * scale + shift));
    }
    clear_behind(pixels, channels, y);
  }

  static Vector larger(Vector a, Vector b) { return ((b > a) | (b != b)) ? b : a; }

  static void halve(int64_t pixels, int64_t channels, Planes<const T> line, Planes<const T> below, Planes<T> y) {
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < pixels / 2; p += kLanes) {
        const T *const one = line.at(c, 2 * p).data, *const two = below.at(c, 2 * p).data;
        const Vector a = load(one), b = load(one + kLanes), d = load(two), e = load(two + kLanes);
        const Vector first = larger(every_second<0>(a, b, kEach), every_second<1>(a, b, kEach));
        store(y.at(c, p).data, larger(larger(first, every_second<0>(d, e, kEach)), every_second<1>(d, e, kEach)));
      }
  }

  // Sums of kApart vectors each, which do not wait for one another.
  static constexpr int64_t kApart = 4;
  struct Sums {
    Vector parts[kApart] = {};
    T whole() const {
      Vector sum = parts[0];
      for (int i = 1; i < kApart; ++i) sum += parts[i];
      return total(sum);
    }
  };

  static void moments(int64_t pixels, int64_t channels, Planes<const T> x, T* mean, T* squares) {
    const int64_t whole = pixels / (kApart * kLanes) * (kApart * kLanes);
    for (int64_t c = 0; c < channels; ++c) {
      const T* line = x.at(c).data;
      Sums sums, apart;
      for (int64_t p = 0; p < whole; p += kApart * kLanes)
#pragma GCC unroll 4
        for (int i = 0; i < kApart; ++i) sums.parts[i] += load(line + p + i * kLanes);
      T sum = sums.whole();
      for (int64_t p = whole; p < pixels; ++p) sum += line[p];
      const Vector middle = spread(mean[c] = sum / static_cast<T>(pixels));
      for (int64_t p = 0; p < whole; p += kApart * kLanes)
#pragma GCC unroll 4
        for (int i = 0; i < kApart; ++i) {
          const Vector far = load(line + p + i * kLanes) - middle;
          apart.parts[i] += far * far;
        }
      squares[c] = apart.whole();
      for (int64_t p = whole; p < pixels; ++p) squares[c] += (line[p] - mean[c]) * (line[p] - mean[c]);
    }
  }

  static void back_sums(int64_t pixels, int64_t channels, Planes<const T> dy, Planes<const T> x, ColumnScales<T> norm,
                        T* sum, T* centred) {
    const int64_t whole = pixels / kLanes * kLanes, apart = pixels / (kApart * kLanes) * (kApart * kLanes);
    for (int64_t c = 0; c < channels; ++c) {
      const T *given = dy.at(c).data, *values = x.at(c).data;
      const Vector scale = spread(norm.scale[c]), shift = spread(norm.shift[c]), mean = spread(norm.mean[c]);
      Sums sums, of_centred;
      const auto add = [&](int i, int64_t p) {
        const Vector value = load(values + p), d = where_above_0(value * scale + shift, load(given + p));
        sums.parts[i] += d;
        of_centred.parts[i] += d * (value - mean);
      };
      for (int64_t p = 0; p < apart; p += kApart * kLanes)
#pragma GCC unroll 4
        for (int i = 0; i < kApart; ++i) add(i, p + i * kLanes);
      for (int64_t p = apart; p < whole; p += kLanes) add(0, p);
      sum[c] = sums.whole();
      centred[c] = of_centred.whole();
      for (int64_t p = whole; p < pixels; ++p) {
        const T d = values[p] * norm.scale[c] + norm.shift[c] <= 0 ? T(0) : given[p];
        sum[c] += d;
        centred[c] += d * (values[p] - norm.mean[c]);
      }
    }
  }

  static void norm_back(int64_t pixels, int64_t channels, Planes<const T> dy, Planes<const T> x, ColumnScales<T> norm,
                        CentreScales<T> centre, Planes<T> dx) {
    for (int64_t c = 0; c < channels; ++c) {
      const Vector scale = spread(norm.scale[c]), shift = spread(norm.shift[c]), mean = spread(norm.mean[c]);
      const Vector factor = spread(centre.scale[c]), slope = spread(centre.slope[c]), offset = spread(centre.offset[c]);
      for (int64_t p = 0; p < pixels; p += kLanes) {
        const Vector value = load(x.at(c, p).data), d = where_above_0(value * scale + shift, load(dy.at(c, p).data));
        store(dx.at(c, p).data, d * factor - (value - mean) * slope - offset);
      }
    }
    clear_behind(pixels, channels, dx);
  }

  static void mix(int64_t pixels, int64_t channels, int64_t stride, const T* const* x, T* const* to) {
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = c * stride; p < c * stride + pixels; p += kLanes) {
        const Vector one = load(x[1] + p), two = load(x[2] + p);
        store(to[0] + p, load(x[0] + p) - two);
        store(to[1] + p, one + two);
        store(to[2] + p, two - one);
        store(to[3] + p, one - load(x[3] + p));
      }
  }

  // One m of kTile outputs at kVectors·kLanes pixels.
  template <int kVectors>
  static void product(int64_t in, const T* line, int64_t stride, const T* weights, Vector (&sums)[kTile][kVectors]) {
#pragma GCC unroll 8
    for (int o = 0; o < kTile; ++o)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[o][v] = Vector{};
    for (int64_t c = 0; c < in; ++c, line += stride)
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j, weights += kTile) {
        Vector x[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) x[v] = load(line + j - 1 + v * kLanes);
#pragma GCC unroll 8
        for (int o = 0; o < kTile; ++o) {
          const Vector weight = spread(weights[o]);
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) sums[o][v] += weight * x[v];
        }
      }
  }

  // y = y·before + sums·sign, without what has a factor of 0.
  template <int kBefore, int kSign, int kVectors>
  static void add_to(Planes<T> y, const Vector (&sums)[kTile][kVectors]) {
#pragma GCC unroll 8
    for (int o = 0; o < kTile; ++o)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        T* const place = y.at(o, v * kLanes).data;
        const Vector signed_sum = kSign > 0 ? sums[o][v] : -sums[o][v];
        store(place, kBefore != 0 ? load(place) + signed_sum : signed_sum);
      }
  }

  template <int kVectors>
  static void tile(int64_t in, const T* const* mixed, int64_t first, const T* weights, Planes<T> y, Planes<T> below) {
    const int64_t size = in * 3 * kTile;
    const Planes<T> here = y.at(0, first), next = below.at(0, first);
    Vector sums[kTile][kVectors];
    product<kVectors>(in, mixed[0] + first, y.stride, weights, sums);
    add_to<0, 1, kVectors>(here, sums);
    product<kVectors>(in, mixed[1] + first, y.stride, weights + size, sums);
    add_to<1, 1, kVectors>(here, sums);
    add_to<0, 1, kVectors>(next, sums);
    product<kVectors>(in, mixed[2] + first, y.stride, weights + 2 * size, sums);
    add_to<1, 1, kVectors>(here, sums);
    add_to<1, -1, kVectors>(next, sums);
    product<kVectors>(in, mixed[3] + first, y.stride, weights + 3 * size, sums);
    add_to<1, -1, kVectors>(next, sums);
  }

  static void convolve(int64_t pixels, int64_t in, int64_t out, const T* const* mixed, const T* weights, Planes<T> y,
                       Planes<T> below) {
    for (int64_t o = 0; o < out; o += kTile, weights += 4 * in * 3 * kTile) {
      int64_t p = 0;
      for (; p + (kAcross - 1) * kLanes < pixels; p += kAcross * kLanes)
        tile<kAcross>(in, mixed, p, weights, y.at(o), below.at(o));
      for (; p < pixels; p += kLanes) tile<1>(in, mixed, p, weights, y.at(o), below.at(o));
    }
  }

  static void add_weights(LinesOf<T> given, int64_t in, int64_t out, int64_t stride, T* sums) {
    for (int64_t o = 0; o < out; o += kTile)
      for (int64_t c = 0; c < in; ++c)
        for (int i = 0; i < 3; ++i, sums += 3 * kLanes * kTile)
          add_taps(given, c * stride, i, o * stride, stride, sums);
  }

  // Of one input, for kTile outputs and the three taps of a kernel's line.
  static void add_taps(LinesOf<T> given, int64_t input, int tap_line, int64_t output, int64_t stride, T* sums) {
    Vector all[kTile][3];
#pragma GCC unroll 8
    for (int o = 0; o < kTile; ++o)
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) all[o][j] = load(sums + (o * 3 + j) * kLanes);
    for (int64_t line = 0; line < given.count; ++line) {
      const T *const x = given.x[line + tap_line] + input, *const dy = given.dy[line] + output;
      for (int64_t p = 0; p < given.pixels; p += kLanes) {
        const Vector left = load(x + p - 1), here = load(x + p), right = load(x + p + 1);
#pragma GCC unroll 8
        for (int o = 0; o < kTile; ++o) {
          const Vector d = load(dy + o * stride + p);
          all[o][0] += d * left;
          all[o][1] += d * here;
          all[o][2] += d * right;
        }
      }
    }
#pragma GCC unroll 8
    for (int o = 0; o < kTile; ++o)
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) store(sums + (o * 3 + j) * kLanes, all[o][j]);
  }

  static constexpr ConvKernels<T> all() {
    return {.lanes = kLanes,
            .tile = kTile,
            .to_planes = to_planes,
            .to_pixels = to_pixels,
            .normalise = normalise,
            .halve = halve,
            .moments = moments,
            .back_sums = back_sums,
            .norm_back = norm_back,
            .mix = mix,
            .convolve = convolve,
            .add_weights = add_weights};
  }
};

}  // namespace
}  // namespace dtrain
