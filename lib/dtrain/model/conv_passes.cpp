#include "dtrain/model/conv_passes.hpp"

#include <ATen/ATen.h>

#include <array>
#include <cstring>

#include "dtrain/model/conv_kernels.hpp"

namespace dtrain {
namespace {

constexpr int64_t kStrip = 32;  // lines that a thread takes at a time, for which it adds up sums
constexpr int64_t kChunk = 96;  // pixels between two looks ahead
constexpr int64_t kPixelsAtOnce = 1024, kMostAtOnce = 8;  // of lines on the way back: what the first cache can hold

int64_t rounded_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

template <class T>
Planes<const T> const_planes(Planes<T> planes) {
  return {planes.data, planes.stride};
}

// At the start of a cache line.
template <class T>
at::Tensor zeros(int64_t count) {
  return at::zeros({count}, at::CppTypeToScalarType<T>::value);
}

/// Some lines of planes, 0 at first: line i is where i modulo their number says.
template <class T>
class Lines {
 public:
  Lines(int64_t count, int64_t pixels, int64_t channels)
      : count_(count), size_(rounded_up(channels, conv_kernels<T>().tile)), lanes_(conv_kernels<T>().lanes) {
    stride_ = rounded_up(pixels, lanes_) + 2 * lanes_;
    if (stride_ * static_cast<int64_t>(sizeof(T)) % 1024 == 0) stride_ += lanes_;  // else few places of the cache
    size_ *= stride_;
    memory_ = zeros<T>(count * size_);
  }

  Planes<T> at(int64_t line) {
    return {memory_.template data_ptr<T>() + (line + count_) % count_ * size_ + lanes_, stride_};
  }
  void clear(int64_t line) { std::memset(at(line).data - lanes_, 0, static_cast<size_t>(size_) * sizeof(T)); }
  /// The lines that a convolution reads for this one.
  std::array<const T*, 3> around(int64_t line) { return {at(line - 1).data, at(line).data, at(line + 1).data}; }

 private:
  int64_t count_, size_, lanes_, stride_ = 0;
  at::Tensor memory_;
};

/// Lines of memory that are needed next: asked for while a line is computed, because a core that waits for memory first
/// and computes then is half as fast.
class Ahead {
 public:
  void reads(const void* from, size_t bytes) { ranges_[count_++] = {static_cast<const char*>(from), bytes, false}; }
  void writes(const void* from, size_t bytes) { ranges_[count_++] = {static_cast<const char*>(from), bytes, true}; }

  /// One of so many parts of each.
  void fetch(size_t part, size_t parts) const {
    for (size_t i = 0; i < count_; ++i) {
      const Range& range = ranges_[i];
      const char* const end = range.from + range.bytes * (part + 1) / parts;
      for (const char* p = range.from + range.bytes * part / parts; p < end; p += kLine)
        range.written ? __builtin_prefetch(p, 1, 2) : __builtin_prefetch(p, 0, 2);
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  struct Range {
    const char* from;
    size_t bytes;
    bool written;
  };
  std::array<Range, 4> ranges_{};
  size_t count_ = 0;
};

/// Some lines of one picture, by their number in it.
struct Strip {
  int64_t number, picture, first, last;
};

int64_t strips_of(at::IntArrayRef nhw) { return nhw[0] * ((nhw[1] + kStrip - 1) / kStrip); }

template <class Body>
void for_strips(at::IntArrayRef nhw, const Body& body) {
  const int64_t of_picture = (nhw[1] + kStrip - 1) / kStrip;
  at::parallel_for(0, nhw[0] * of_picture, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % of_picture * kStrip;
      body(Strip{i, i / of_picture, first, std::min(nhw[1], first + kStrip)});
    }
  });
}

/// Where the lines of pictures are in memory.
template <class T>
struct Picture {
  T* data;
  int64_t height, width, channels;

  Picture(const at::Tensor& rows, at::IntArrayRef nhw)
      : data(rows.defined() ? rows.data_ptr<T>() : nullptr),
        height(nhw[1]),
        width(nhw[2]),
        channels(rows.defined() ? rows.size(1) : 0) {}

  bool has(int64_t line) const { return line >= 0 && line < height; }
  T* line(const Strip& strip, int64_t line) const { return data + (strip.picture * height + line) * width * channels; }
  size_t line_bytes() const { return static_cast<size_t>(width * channels) * sizeof(T); }
};

/// As convolve() reads it; `back`: of the convolution that leads from y's gradient to x's.
template <class T>
std::vector<T> packed(const at::Tensor& kernel, bool back) {
  const at::Tensor whole = (back ? kernel.flip({2, 3}).transpose(0, 1) : kernel).contiguous();
  const int64_t tile = conv_kernels<T>().tile, out = whole.size(0), taps = whole.size(1) * 9;
  std::vector<T> result(static_cast<size_t>(rounded_up(out, tile) * taps), T(0));
  const T* from = whole.const_data_ptr<T>();
  for (int64_t o = 0; o < out; ++o)
    for (int64_t k = 0; k < taps; ++k)
      result[static_cast<size_t>((o / tile * taps + k) * tile + o % tile)] = from[o * taps + k];
  return result;
}

template <class T>
void convolve_line(int64_t pixels, int64_t in, int64_t out, const std::array<const T*, 3>& lines, const T* weights,
                   Planes<T> y, const Ahead& ahead) {
  const size_t parts = static_cast<size_t>((pixels + kChunk - 1) / kChunk);
  for (size_t part = 0; part < parts; ++part) {
    ahead.fetch(part, parts);
    const int64_t p = static_cast<int64_t>(part) * kChunk;
    const std::array<const T*, 3> from{lines[0] + p, lines[1] + p, lines[2] + p};
    conv_kernels<T>().convolve(std::min(kChunk, pixels - p), in, out, from.data(), weights, y.at(0, p));
  }
}

/// Adds up the parts of strips, in their order.
template <class T>
at::Tensor added_up(const std::vector<T>& parts, int64_t size, const at::TensorOptions& options) {
  std::vector<double> sums(static_cast<size_t>(size));
  for (size_t i = 0; i < parts.size(); ++i) sums[i % sums.size()] += static_cast<double>(parts[i]);
  return at::tensor(sums, at::kDouble).to(options.dtype());
}

template <class T>
CentreScales<T> centre_scales(const NormCentre& centre) {
  return {centre.scale.const_data_ptr<T>(), centre.slope.const_data_ptr<T>(), centre.offset.const_data_ptr<T>()};
}

/// The way back through one convolution.
template <class T>
class Back {
 public:
  Back(const ConvInput& x, const ConvReturn& y, at::IntArrayRef nhw, const at::Tensor& kernel, const at::Tensor& dx,
       bool of_kernel)
      : x_(x.rows, nhw),
        dy_(y.gradient, nhw),
        y_(y.rows, nhw),
        dx_(dx, nhw),
        norm_x_(x.norm),
        norm_y_(y.norm->columns<T>()),
        centre_(centre_scales<T>(*y.centre)),
        of_kernel_(of_kernel),
        at_once_(std::clamp<int64_t>(kPixelsAtOnce / x_.width, 1, kMostAtOnce)) {
    if (dx.defined()) weights_ = packed<T>(kernel, true);
    const auto strips = static_cast<size_t>(strips_of(nhw));
    if (of_kernel) kernel_parts.assign(strips * static_cast<size_t>(kernel.numel()), T(0));
    if (norm_x_ != nullptr) norm_parts.assign(strips * 2 * static_cast<size_t>(x_.channels), 0);
  }

  void run(const Strip& strip) {
    Work work(*this);
    for (int64_t line = strip.first - 1; line <= strip.first; ++line) load(work, strip, line);
    for (int64_t first = strip.first; first < strip.last; first += at_once_) {
      const int64_t last = std::min(first + at_once_, strip.last);
      for (int64_t line = first; line < last; ++line) load(work, strip, line + 1);
      if (of_kernel_) add_weights(work, first, last);
      for (int64_t line = first; dx_.data != nullptr && line < last; ++line) go_back(work, strip, line);
    }
    if (of_kernel_) finish_kernel(work, strip);
  }

  std::vector<T> kernel_parts;     // of each strip [out, in, 3, 3]
  std::vector<double> norm_parts;  // of each strip Σ d and Σ d·(x − mean) [2, in]

 private:
  struct Work {
    explicit Work(const Back& back)
        : x(back.at_once_ + 2, back.x_.width, back.x_.channels),
          normalised(back.norm_x_ != nullptr ? back.at_once_ + 2 : 0, back.x_.width, back.x_.channels),
          dy(back.at_once_ + 2, back.x_.width, back.dy_.channels),
          y(1, back.x_.width, back.dy_.channels),
          dx(back.dx_.data != nullptr ? 1 : 0, back.x_.width, back.x_.channels),
          row(2 * static_cast<size_t>(back.x_.channels)) {
      const int64_t outputs = rounded_up(back.dy_.channels, back.kernels_.tile);
      if (back.of_kernel_) sums = zeros<T>(outputs * back.x_.channels * 9 * back.kernels_.lanes);
    }

    Lines<T> x, normalised, dy, y, dx;
    at::Tensor sums;
    std::vector<T> row;
  };

  Lines<T>& input(Work& work) { return norm_x_ != nullptr ? work.normalised : work.x; }

  void load(Work& work, const Strip& strip, int64_t line) {
    if (!x_.has(line)) {
      input(work).clear(line);
      work.dy.clear(line);
      return;
    }
    kernels_.to_planes(x_.width, x_.channels, x_.line(strip, line), work.x.at(line));
    if (norm_x_ != nullptr)
      kernels_.normalise(x_.width, x_.channels, const_planes(work.x.at(line)), norm_x_->columns<T>(),
                         work.normalised.at(line));
    kernels_.to_planes(dy_.width, dy_.channels, dy_.line(strip, line), work.dy.at(line));
    kernels_.to_planes(dy_.width, dy_.channels, y_.line(strip, line), work.y.at(0));
    kernels_.norm_back(dy_.width, dy_.channels, const_planes(work.dy.at(line)), const_planes(work.y.at(0)), norm_y_,
                       centre_, work.dy.at(line));
  }

  void add_weights(Work& work, int64_t first, int64_t last) {
    std::array<const T*, kMostAtOnce + 2> x{};
    std::array<const T*, kMostAtOnce> dy{};
    for (int64_t line = first - 1; line <= last; ++line)
      x[static_cast<size_t>(line - first + 1)] = input(work).at(line).data;
    for (int64_t line = first; line < last; ++line) dy[static_cast<size_t>(line - first)] = work.dy.at(line).data;
    kernels_.add_weights({x_.width, last - first, x.data(), dy.data()}, x_.channels, dy_.channels,
                         work.dy.at(first).stride, work.sums.template data_ptr<T>());
  }

  void go_back(Work& work, const Strip& strip, int64_t line) {
    Ahead ahead;
    if (x_.has(line + at_once_ + 1)) {
      ahead.reads(x_.line(strip, line + at_once_ + 1), x_.line_bytes());
      ahead.reads(dy_.line(strip, line + at_once_ + 1), dy_.line_bytes());
      ahead.reads(y_.line(strip, line + at_once_ + 1), y_.line_bytes());
    }
    ahead.writes(dx_.line(strip, line), dx_.line_bytes());
    const Planes<T> dx = work.dx.at(0);
    convolve_line(x_.width, dy_.channels, x_.channels, work.dy.around(line), weights_.data(), dx, ahead);
    kernels_.to_pixels(x_.width, x_.channels, const_planes(dx), dx_.line(strip, line));
    if (norm_x_ == nullptr) return;
    T *const sum = work.row.data(), *const centred = sum + x_.channels;
    kernels_.back_sums(x_.width, x_.channels, const_planes(dx), const_planes(work.x.at(line)), norm_x_->columns<T>(),
                       sum, centred);
    double* const parts = norm_parts.data() + strip.number * 2 * x_.channels;
    for (size_t c = 0; c < work.row.size(); ++c) parts[c] += static_cast<double>(work.row[c]);
  }

  // The lanes of each sum, one after the other.
  void finish_kernel(const Work& work, const Strip& strip) {
    const int64_t tile = kernels_.tile, lanes = kernels_.lanes, in = x_.channels, out = dy_.channels;
    T* const to = kernel_parts.data() + strip.number * out * in * 9;
    for (int64_t o = 0; o < out; ++o)
      for (int64_t k = 0; k < in * 3; ++k)
        for (int64_t j = 0; j < 3; ++j) {
          const T* from =
              work.sums.template const_data_ptr<T>() + (((o / tile * in * 3 + k) * tile + o % tile) * 3 + j) * lanes;
          for (int64_t lane = 0; lane < lanes; ++lane) to[(o * in * 3 + k) * 3 + j] += from[lane];
        }
  }

  const ConvKernels<T>& kernels_ = conv_kernels<T>();
  Picture<T> x_, dy_, y_, dx_;
  const NormScales* norm_x_;
  ColumnScales<T> norm_y_;
  CentreScales<T> centre_;
  bool of_kernel_;
  int64_t at_once_;  // lines over which the sums of a kernel's gradient stay in registers
  std::vector<T> weights_;
};

NormSums as_sums(const at::Tensor& both) {
  const at::Tensor pair = both.view({2, -1});
  return {pair[0], pair[1]};
}

/// With its moments, or as max(0, norm(…)), or as it is.
ConvOutput convolved(const ConvInput& x, at::IntArrayRef nhw, const at::Tensor& kernel, bool with_moments,
                     const NormScales* norm) {
  const int64_t out = kernel.size(0), width = nhw[2];
  ConvOutput result{at::empty({x.rows.size(0), out}, x.rows.options()), {}, {}};
  with_type(x.rows, [&](auto zero) {
    using T = decltype(zero);
    const ConvKernels<T>& kernels = conv_kernels<T>();
    const Picture<T> from(x.rows, nhw), to(result.rows, nhw);
    const std::vector<T> weights = packed<T>(kernel, false);
    Moments<T> moments(x.rows.size(0), out, width);
    for_strips(nhw, [&](const Strip& strip) {
      Lines<T> lines(3, width, from.channels), y(1, width, out);
      const auto load = [&](int64_t line) {
        if (!from.has(line)) return lines.clear(line);
        const Planes<T> planes = lines.at(line);
        kernels.to_planes(width, from.channels, from.line(strip, line), planes);
        if (x.norm != nullptr)
          kernels.normalise(width, from.channels, const_planes(planes), x.norm->columns<T>(), planes);
      };
      load(strip.first - 1);
      load(strip.first);
      for (int64_t line = strip.first; line < strip.last; ++line) {
        load(line + 1);
        Ahead ahead;
        if (from.has(line + 2)) ahead.reads(from.line(strip, line + 2), from.line_bytes());
        ahead.writes(to.line(strip, line), to.line_bytes());
        convolve_line(width, from.channels, out, lines.around(line), weights.data(), y.at(0), ahead);
        if (norm != nullptr) kernels.normalise(width, out, const_planes(y.at(0)), norm->columns<T>(), y.at(0));
        T* const mean = moments.part(strip.picture * nhw[1] + line);
        if (with_moments) kernels.moments(width, out, const_planes(y.at(0)), mean, mean + out);
        kernels.to_pixels(width, out, const_planes(y.at(0)), to.line(strip, line));
      }
    });
    if (!with_moments) return;
    result.mean = at::empty({out}, x.rows.options());
    result.variance = at::empty_like(result.mean);
    moments.finish(result.mean.template data_ptr<T>(), result.variance.template data_ptr<T>());
  });
  return result;
}

}  // namespace

ConvOutput convolved(const ConvInput& x, at::IntArrayRef nhw, const at::Tensor& kernel, bool with_moments) {
  return convolved(x, nhw, kernel, with_moments, nullptr);
}

at::Tensor convolved_and_rectified(const ConvInput& x, at::IntArrayRef nhw, const at::Tensor& kernel,
                                   const NormScales& norm) {
  return convolved(x, nhw, kernel, false, &norm).rows;
}

NormSums norm_sums(const at::Tensor& gradient, const at::Tensor& rows, const NormScales& norm, at::IntArrayRef nhw) {
  NormSums result;
  with_type(rows, [&](auto zero) {
    using T = decltype(zero);
    const ConvKernels<T>& kernels = conv_kernels<T>();
    const Picture<T> dy(gradient, nhw), x(rows, nhw);
    std::vector<double> parts(static_cast<size_t>(strips_of(nhw) * 2 * x.channels));
    for_strips(nhw, [&](const Strip& strip) {
      Lines<T> of_dy(1, x.width, x.channels), of_x(1, x.width, x.channels);
      std::vector<T> row(static_cast<size_t>(2 * x.channels));
      for (int64_t line = strip.first; line < strip.last; ++line) {
        kernels.to_planes(x.width, x.channels, dy.line(strip, line), of_dy.at(0));
        kernels.to_planes(x.width, x.channels, x.line(strip, line), of_x.at(0));
        kernels.back_sums(x.width, x.channels, const_planes(of_dy.at(0)), const_planes(of_x.at(0)), norm.columns<T>(),
                          row.data(), row.data() + x.channels);
        double* const sums = parts.data() + strip.number * 2 * x.channels;
        for (size_t c = 0; c < row.size(); ++c) sums[c] += static_cast<double>(row[c]);
      }
    });
    result = as_sums(added_up(parts, 2 * x.channels, rows.options()));
  });
  return result;
}

NormCentre norm_centre(const NormSums& sums, const NormScales& norm, const at::Tensor& gamma, int64_t pixels) {
  const double share = 1.0 / static_cast<double>(pixels);
  NormCentre centre;
  centre.gradients = {sums.centred * norm.inverse, sums.sum};
  centre.scale = gamma * norm.inverse;
  centre.slope = centre.scale * norm.inverse * centre.gradients.weight * share;
  centre.offset = centre.scale * centre.gradients.bias * share;
  return centre;
}

ConvGradients convolved_back(const ConvInput& x, const ConvReturn& y, at::IntArrayRef nhw, const at::Tensor& kernel,
                             bool of_input, bool of_kernel) {
  ConvGradients result;
  if (of_input) result.input = at::empty_like(x.rows);
  with_type(x.rows, [&](auto zero) {
    using T = decltype(zero);
    Back<T> back(x, y, nhw, kernel, result.input, of_kernel);
    for_strips(nhw, [&](const Strip& strip) { back.run(strip); });
    if (of_kernel) result.kernel = added_up(back.kernel_parts, kernel.numel(), x.rows.options()).view(kernel.sizes());
    if (of_input && x.norm != nullptr)
      result.norm = as_sums(added_up(back.norm_parts, 2 * x.rows.size(1), x.rows.options()));
  });
  return result;
}

}  // namespace dtrain
