#include "dtrain/model/winograd.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>
#include <vector>

#include "dtrain/model/row_products.hpp"
#include "dtrain/model/winograd_kernels.hpp"

namespace dtrain {
namespace {

constexpr int64_t kPlaces = 16;  // of a tile
constexpr int64_t kOfAll = 5;    // the place that holds a tile's sum on the way back, and that all pixels get alike
constexpr int64_t kTilesAtOnce = 2 * kPanel;  // tiles over which the sums of a kernel's gradient stay in registers

// From one place to the next of so many values: a line more than whole pages, so that the places of one channel do not
// share a few places of the cache.
int64_t apart(int64_t values) { return (values + 1023) / 1024 * 1024 + 16; }

/// The tiles of some pictures, one line of them after the other.
class Tiles {
 public:
  explicit Tiles(const at::Tensor& picture)
      : height_(picture.size(2)),
        width_(picture.size(3)),
        high_((height_ + 1) / 2),
        wide_((width_ + 1) / 2),
        count_(picture.size(0) * high_ * wide_) {}

  int64_t count() const { return count_; }

  /// Where the pixels of tile i are, `kSide` × `kSide` from its own first one or `before` it on; those that are in no
  /// picture are `outside`.
  template <int kSide, class T>
  std::array<T*, kSide * kSide> pixels(int64_t i, int64_t before, T* data, int64_t channels,
                                       std::type_identity_t<T>* outside) const {
    const int64_t picture = i / (high_ * wide_), top = i / wide_ % high_ * 2 - before, left = i % wide_ * 2 - before;
    const int64_t first = (picture * height_ + top) * width_ + left;
    const bool whole = top >= 0 && left >= 0 && top + kSide <= height_ && left + kSide <= width_;
    std::array<T*, kSide * kSide> result;
#pragma GCC unroll 16
    for (size_t k = 0; k < result.size(); ++k) {
      const int64_t down = static_cast<int64_t>(k) / kSide, right = static_cast<int64_t>(k) % kSide;
      const int64_t y = top + down, x = left + right;
      const bool inside = whole || (y >= 0 && y < height_ && x >= 0 && x < width_);
      result[k] = inside ? data + (first + down * width_ + right) * channels : outside;
    }
    return result;
  }

 private:
  int64_t height_, width_, high_, wide_, count_;
};

/// The 16 places of so many rows of channels.
template <class T>
class Places {
 public:
  Places(int64_t rows, int64_t channels)
      : channels_(channels), stride_(apart(rows * channels)), memory_(kPlaces * stride_) {}

  Rows<T> rows(int64_t place) { return {memory_.data() + place * stride_, channels_}; }
  T* row(int64_t row) { return memory_.data() + row * channels_; }
  int64_t stride() const { return stride_; }

 private:
  int64_t channels_, stride_;
  Scratch<T> memory_;
};

/// A kernel at its places, each as RowKernels::multiply reads it. `back`: of the convolution that leads from the
/// result's gradient to x's, whose taps lie the other way round.
template <class T>
class PlacedKernel {
 public:
  PlacedKernel(const at::Tensor& kernel, bool back)
      : out(kernel.size(back ? 1 : 0)), in(kernel.size(back ? 0 : 1)), places_(in, out) {
    const int64_t tile = row_kernels<T>().tile;
    const int64_t outputs = kernel.stride(back ? 1 : 0), inputs = kernel.stride(back ? 0 : 1);
    const T* const data = kernel.const_data_ptr<T>();
    at::parallel_for(0, out / tile, 1, [&](int64_t begin, int64_t end) {
      Scratch<T> taps(9 * in * tile);  // each as the products read it, [in, tile]
      for (int64_t o = begin * tile; o < end * tile; o += tile) {
        for (int64_t k = 0; k < 9; ++k) {
          const int64_t tap = back ? 8 - k : k;
          row_kernels<T>().pack(in, tile, data + o * outputs + tap / 3 * kernel.stride(2) + tap % 3 * kernel.stride(3),
                                inputs, outputs, taps.data() + k * in * tile);
        }
        std::array<const T*, 9> pointers{};
        for (int64_t i = 0; i < in * tile; i += tile) {
          for (size_t k = 0; k < 9; ++k) pointers[k] = taps.data() + static_cast<int64_t>(k) * in * tile + i;
          winograd_kernels<T>().from_kernel(tile, pointers.data(), places_.row(0) + o * in + i, places_.stride());
        }
      }
    });
  }

  const T* at(int64_t place) { return places_.rows(place).data; }

  const int64_t out, in;

 private:
  Places<T> places_;
};

template <class T>
void add_to_all(Rows<T> rows, int64_t count, int64_t channels, const T* bias) {
  for (int64_t r = 0; r < count; ++r) {
    T* const row = rows.at(r).data;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) row[c] += bias[c];
  }
}

template <class T>
at::Tensor tiled(const at::Tensor& x, const at::Tensor& weight, bool back, const at::Tensor& bias,
                 const Epilogue& epilogue) {
  const Tiles tiles(x);
  PlacedKernel<T> kernel(weight, back);
  const at::Tensor y =
      at::empty({x.size(0), kernel.out, x.size(2), x.size(3)}, x.options(), at::MemoryFormat::ChannelsLast);
  const std::vector<T> zeros(static_cast<size_t>(kernel.in), T(0));
  const T* const from = x.const_data_ptr<T>();
  T* const to = y.data_ptr<T>();
  const auto finished =
      epilogue.any() ? std::optional<EpiloguePass<T>>(std::in_place, epilogue, as_rows(y), false) : std::nullopt;
  at::parallel_for(0, (tiles.count() + kPanel - 1) / kPanel, 1, [&](int64_t first, int64_t last) {
    Places<T> read(kPanel, kernel.in), made(kPanel, kernel.out);
    std::vector<T> spare(static_cast<size_t>(kernel.out));
    for (int64_t begin = first * kPanel; begin < std::min(last * kPanel, tiles.count()); begin += kPanel) {
      const int64_t rows = std::min(kPanel, tiles.count() - begin);
      for (int64_t r = 0; r < rows; ++r)
        winograd_kernels<T>().from_input(kernel.in, tiles.pixels<4>(begin + r, 1, from, kernel.in, zeros.data()).data(),
                                         read.row(r), read.stride());
      for (int64_t place = 0; place < kPlaces; ++place)
        row_kernels<T>().multiply(rows, kernel.out, kernel.in, const_rows(read.rows(place)), kernel.at(place),
                                  made.rows(place), false);
      if (bias.defined()) add_to_all(made.rows(kOfAll), rows, kernel.out, bias.const_data_ptr<T>());
      for (int64_t r = 0; r < rows; ++r) {
        const std::array<T*, 4> pixels = tiles.pixels<2>(begin + r, 0, to, kernel.out, spare.data());
        winograd_kernels<T>().to_output(kernel.out, made.row(r), made.stride(), pixels.data());
        if (!finished) continue;
        for (T* const pixel : pixels)
          if (pixel != spare.data()) (*finished)({pixel, kernel.out}, 1, (pixel - to) / kernel.out, kernel.out);
      }
    }
  });
  return y;
}

/// Adds up a kernel's gradient at its places.
template <class T>
class KernelSums {
 public:
  KernelSums(const at::Tensor& x, const at::Tensor& dy, bool of_bias)
      : tiles_(x),
        in_(x.size(1)),
        out_(dy.size(1)),
        x_(x.const_data_ptr<T>()),
        dy_(dy.const_data_ptr<T>()),
        read_(kTilesAtOnce, in_),
        given_(kTilesAtOnce, out_),
        sums_(out_, in_),
        zeros_(static_cast<size_t>(std::max(in_, out_))) {
    if (of_bias) bias_.resize(static_cast<size_t>(out_));
    for (int64_t place = 0; place < kPlaces; ++place) std::fill_n(sums_.rows(place).data, out_ * in_, T(0));
  }

  void run() {
    for (int64_t begin = 0; begin < tiles_.count(); begin += kTilesAtOnce) {
      const int64_t rows = std::min(kTilesAtOnce, tiles_.count() - begin);
      at::parallel_for(0, rows, kPanel / 8, [&](int64_t first, int64_t last) { transform(begin, first, last); });
      at::parallel_for(0, kPlaces, 1, [&](int64_t first, int64_t last) { add(rows, first, last); });
    }
  }

  /// [out, in, 3, 3] in channels-last.
  at::Tensor kernel(const at::TensorOptions& options) {
    const at::Tensor result = at::empty({out_, in_, 3, 3}, options, at::MemoryFormat::ChannelsLast);
    T* const to = result.data_ptr<T>();
    at::parallel_for(0, out_, 1, [&](int64_t first, int64_t last) {
      for (int64_t o = first; o < last; ++o) {
        std::array<T*, 9> taps{};
        for (size_t k = 0; k < 9; ++k) taps[k] = to + (o * 9 + static_cast<int64_t>(k)) * in_;
        winograd_kernels<T>().to_kernel(in_, sums_.row(o), sums_.stride(), taps.data());
      }
    });
    return result;
  }

  at::Tensor bias(const at::TensorOptions& options) const { return at::tensor(bias_, at::kDouble).to(options.dtype()); }

 private:
  void transform(int64_t begin, int64_t first, int64_t last) {
    const WinogradKernels<T>& kernels = winograd_kernels<T>();
    for (int64_t r = first; r < last; ++r) {
      kernels.from_input(in_, tiles_.pixels<4>(begin + r, 1, x_, in_, zeros_.data()).data(), read_.row(r),
                         read_.stride());
      kernels.from_gradient(out_, tiles_.pixels<2>(begin + r, 0, dy_, out_, zeros_.data()).data(), given_.row(r),
                            given_.stride());
    }
  }

  void add(int64_t rows, int64_t first, int64_t last) {
    Across<T> across(kTilesAtOnce, out_);
    for (int64_t place = first; place < last; ++place) {
      across.pack(rows, const_rows(given_.rows(place)));
      across.add_product(rows, in_, const_rows(read_.rows(place)), sums_.rows(place));
      if (place == kOfAll && !bias_.empty()) add_bias(rows);
    }
  }

  void add_bias(int64_t rows) {
    std::vector<T> sum(bias_.size());
    for (int64_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < sum.size(); ++c) sum[c] += given_.rows(kOfAll).at(r).data[c];
    for (size_t c = 0; c < sum.size(); ++c) bias_[c] += static_cast<double>(sum[c]);
  }

  Tiles tiles_;
  int64_t in_, out_;
  const T *x_, *dy_;
  Places<T> read_, given_, sums_;
  std::vector<T> zeros_;
  std::vector<double> bias_;
};

template <class T>
bool pays_for(int64_t in, int64_t out, int64_t height, int64_t width) {
  const int64_t tile = row_kernels<T>().tile;
  const int64_t computed = (height + 1) / 2 * ((width + 1) / 2) * 4;  // pixels
  return winograd_kernels<T>().pays && in % tile == 0 && out % tile == 0 && 2 * computed <= 3 * height * width;
}

}  // namespace

bool winograd_pays(const at::Tensor& x, int64_t out) {
  bool pays = serves_rows(x, true) && x.is_contiguous(at::MemoryFormat::ChannelsLast);
  if (pays) with_type(x, [&](auto zero) { pays = pays_for<decltype(zero)>(x.size(1), out, x.size(2), x.size(3)); });
  return pays;
}

int64_t winograd_workspace(int64_t in, int64_t out, int64_t height, int64_t width) {
  if (!pays_for<float>(in, out, height, width)) return 0;
  const int64_t tiles = std::max<int64_t>(kTilesAtOnce, kPanel * at::get_num_threads());
  const int64_t taps = 9 * std::max(in, out) * kColumns * at::get_num_threads();
  return kPlaces * (apart(tiles * in) + apart(tiles * out) + apart(in * out)) + taps;
}

at::Tensor winograd(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias, const Epilogue& epilogue) {
  at::Tensor y;
  with_type(x, [&](auto zero) { y = tiled<decltype(zero)>(x, kernel, false, bias, epilogue); });
  return y;
}

at::Tensor winograd_input_back(const at::Tensor& dy, const at::Tensor& kernel) {
  at::Tensor dx;
  with_type(dy, [&](auto zero) { dx = tiled<decltype(zero)>(dy, kernel, true, {}, {}); });
  return dx;
}

WinogradGradients winograd_kernel_back(const at::Tensor& x, const at::Tensor& dy, bool of_bias) {
  WinogradGradients gradients;
  with_type(x, [&](auto zero) {
    KernelSums<decltype(zero)> sums(x, dy, of_bias);
    sums.run();
    gradients.kernel = sums.kernel(x.options());
    if (of_bias) gradients.bias = sums.bias(x.options());
  });
  return gradients;
}

}  // namespace dtrain
