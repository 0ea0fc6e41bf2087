#include "dtrain/model/pool_passes.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>

namespace dtrain {
namespace {

constexpr int64_t kMostSide = 3;      // of a window
constexpr int64_t kByteColumns = 64;  // of RowKernels::largest
static_assert(kMostSide * kMostSide <= WindowPixels<float>::kMost);

/// Where windows lie along one direction of a picture.
struct Axis {
  int64_t size;  // of the picture
  Window window;

  int64_t outputs() const { return window.outputs(size); }
  int64_t begin(int64_t output) const { return output * window.stride - window.padding; }
  bool has(int64_t place) const { return place >= 0 && place < size; }
  /// The outputs whose windows hold this place: first, and behind the last.
  int64_t first_over(int64_t place) const {
    const int64_t before = place + window.padding - window.kernel;
    return before < 0 ? 0 : before / window.stride + 1;
  }
  int64_t end_over(int64_t place) const { return std::min(outputs(), (place + window.padding) / window.stride + 1); }
};

/// The lines of max(0, norm(x)) that windows of one line of outputs hold: line i is where i modulo their number says.
template <class T>
class RectifiedLines {
 public:
  RectifiedLines(const at::Tensor& x, const NormScales& scales, int64_t width)
      : x_(x), scales_(scales), width_(width), memory_(kMostSide * width * x.size(1)) {
    lines_.fill(-1);
  }

  /// Line i of all pictures' lines, one below the other.
  const T* at(int64_t line) {
    const int64_t place = line % kMostSide;
    T* const to = memory_.data() + place * width_ * x_.size(1);
    if (lines_[static_cast<size_t>(place)] != line) {
      row_kernels<T>().normalise(width_, x_.size(1), const_rows(rows_of<T>(x_).at(line * width_)),
                                 scales_.template columns<T>(), Rows<T>{to, x_.size(1)}, false);
      lines_[static_cast<size_t>(place)] = line;
    }
    return to;
  }

 private:
  const at::Tensor& x_;
  const NormScales& scales_;
  int64_t width_;
  Scratch<T> memory_;
  std::array<int64_t, kMostSide> lines_{};
};

}  // namespace

bool pools_rows(const Window& window, int64_t channels) {
  return window.kernel <= kMostSide && 2 * window.padding <= window.kernel && channels % kByteColumns == 0;
}

Pooled max_pooled(const at::Tensor& x, at::IntArrayRef nhw, const NormScales& scales, const Window& window) {
  const Axis down{nhw[1], window}, across{nhw[2], window};
  const int64_t high = down.outputs(), wide = across.outputs(), channels = x.size(1);
  const Pooled y{at::empty({nhw[0] * high * wide, channels}, x.options()),
                 at::empty({nhw[0] * high * wide, channels}, x.options().dtype(at::kByte))};
  with_type(x, [&](auto zero) {
    using T = decltype(zero);
    T* const rows = y.rows.template data_ptr<T>();
    auto* const chosen = y.chosen.template data_ptr<uint8_t>();
    at::parallel_for(0, nhw[0] * high, 1, [&](int64_t first, int64_t last) {
      RectifiedLines<T> rectified(x, scales, nhw[2]);
      for (int64_t line = first; line < last; ++line) {
        std::array<const T*, kMostSide> lines{};
        for (int64_t k = 0; k < window.kernel; ++k)
          if (const int64_t i = down.begin(line % high) + k; down.has(i))
            lines[static_cast<size_t>(k)] = rectified.at(line / high * nhw[1] + i);
        for (int64_t j = 0; j < wide; ++j) {
          WindowPixels<T> pixels;
          for (int64_t k = 0; k < window.kernel; ++k)
            for (int64_t l = 0; l < window.kernel; ++l)
              if (lines[static_cast<size_t>(k)] != nullptr && across.has(across.begin(j) + l))
                pixels.add(lines[static_cast<size_t>(k)] + (across.begin(j) + l) * channels, nullptr,
                           k * window.kernel + l);
          const int64_t place = (line * wide + j) * channels;
          row_kernels<T>().largest(channels, pixels, rows + place, chosen + place);
        }
      }
    });
  });
  return y;
}

at::Tensor max_pooled_back(const at::Tensor& dy, const at::Tensor& chosen, at::IntArrayRef nhw, const Window& window) {
  const Axis down{nhw[1], window}, across{nhw[2], window};
  const int64_t high = down.outputs(), wide = across.outputs(), channels = dy.size(1);
  const at::Tensor d = at::empty({nhw[0] * nhw[1] * nhw[2], channels}, dy.options());
  with_type(dy, [&](auto zero) {
    using T = decltype(zero);
    const T* const given = dy.const_data_ptr<T>();
    const auto* const which = chosen.const_data_ptr<uint8_t>();
    T* const to = d.data_ptr<T>();
    at::parallel_for(0, nhw[0] * nhw[1], 1, [&](int64_t first, int64_t last) {
      for (int64_t line = first; line < last; ++line) {
        const int64_t i = line % nhw[1], picture = line / nhw[1] * high;
        for (int64_t j = 0; j < nhw[2]; ++j) {
          WindowPixels<T> pixels;
          for (int64_t k = down.first_over(i); k < down.end_over(i); ++k)
            for (int64_t l = across.first_over(j); l < across.end_over(j); ++l) {
              const int64_t place = ((picture + k) * wide + l) * channels;
              pixels.add(given + place, which + place, (i - down.begin(k)) * window.kernel + j - across.begin(l));
            }
          row_kernels<T>().sum_chosen(channels, pixels, to + (line * nhw[2] + j) * channels);
        }
      }
    });
  });
  return d;
}

}  // namespace dtrain
