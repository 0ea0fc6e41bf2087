#include "dtrain/model/conv_passes.hpp"

#include <ATen/ATen.h>

#include <array>
#include <optional>

#include "dtrain/model/conv_lines.hpp"

namespace dtrain {
namespace {

constexpr int64_t kPixelsAtOnce = 1024, kMostAtOnce = 8;  // of lines on the way back: what the first cache can hold
static_assert(kMostAtOnce % 2 == 0);

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
        at_once_(std::clamp<int64_t>(kPixelsAtOnce / x_.width / 2 * 2, 2, kMostAtOnce)) {
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
      for (int64_t line = first; work.dx && line < last; line += 2)
        go_back(work, strip, line, std::min<int64_t>(2, last - line));
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
          row(2 * static_cast<size_t>(back.x_.channels)) {
      const int64_t outputs = rounded_up(back.dy_.channels, back.kernels_.tile);
      if (back.dx_.data != nullptr) dx.emplace(back.x_.width, back.dy_.channels, back.x_.channels);
      if (back.of_kernel_) sums = zero_values<T>(outputs * back.x_.channels * 9 * back.kernels_.lanes);
    }

    Lines<T> x, normalised, dy, y;
    std::optional<TwoLines<T>> dx;
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

  // This line, or this and the next.
  void go_back(Work& work, const Strip& strip, int64_t line, int64_t count) {
    Ahead ahead;
    const int64_t later = line + at_once_ + 1, more = std::clamp<int64_t>(x_.height - later, 0, 2);
    if (more > 0) {
      ahead.reads(x_.line(strip, later), x_.bytes(more));
      ahead.reads(dy_.line(strip, later), dy_.bytes(more));
      ahead.reads(y_.line(strip, later), y_.bytes(more));
    }
    ahead.writes(dx_.line(strip, line), dx_.bytes(count));
    work.dx->convolve(work.dy.around(line), weights_.data(), ahead);
    for (int64_t i = 0; i < count; ++i) finish(work, strip, line + i, work.dx->y(i));
  }

  void finish(Work& work, const Strip& strip, int64_t line, Planes<T> dx) {
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
ConvOutput line_by_line(const ConvInput& x, at::IntArrayRef nhw, const at::Tensor& kernel, bool with_moments,
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
      Lines<T> lines(4, width, from.channels);
      TwoLines<T> y(width, from.channels, out);
      const auto load = [&](int64_t line) {
        if (!from.has(line)) return lines.clear(line);
        const Planes<T> planes = lines.at(line);
        kernels.to_planes(width, from.channels, from.line(strip, line), planes);
        if (x.norm != nullptr)
          kernels.normalise(width, from.channels, const_planes(planes), x.norm->columns<T>(), planes);
      };
      load(strip.first - 1);
      load(strip.first);
      const auto finish = [&](int64_t line, const Planes<T>& planes) {
        if (norm != nullptr) kernels.normalise(width, out, const_planes(planes), norm->columns<T>(), planes);
        T* const mean = moments.part(strip.picture * nhw[1] + line);
        if (with_moments) kernels.moments(width, out, const_planes(planes), mean, mean + out);
        kernels.to_pixels(width, out, const_planes(planes), to.line(strip, line));
      };
      for (int64_t line = strip.first; line < strip.last; line += 2) {
        load(line + 1);
        load(line + 2);
        const int64_t count = std::min<int64_t>(2, strip.last - line);
        Ahead ahead;
        if (from.has(line + 3))
          ahead.reads(from.line(strip, line + 3), from.bytes(std::min<int64_t>(2, from.height - line - 3)));
        ahead.writes(to.line(strip, line), to.bytes(count));
        y.convolve(lines.around(line), weights.data(), ahead);
        for (int64_t i = 0; i < count; ++i) finish(line + i, y.y(i));
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
  return line_by_line(x, nhw, kernel, with_moments, nullptr);
}

at::Tensor convolved_and_rectified(const ConvInput& x, at::IntArrayRef nhw, const at::Tensor& kernel,
                                   const NormScales& norm) {
  return line_by_line(x, nhw, kernel, false, &norm).rows;
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
