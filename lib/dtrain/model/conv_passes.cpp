#include "dtrain/model/conv_passes.hpp"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>

#include <array>
#include <optional>

#include "dtrain/model/conv_lines.hpp"

namespace dtrain {
namespace {

constexpr int64_t kPixelsAtOnce = 1024, kMostAtOnce = 8;  // of lines on the way back: what the first cache can hold
static_assert(kMostAtOnce % 2 == 0);

constexpr int64_t kLongStrip = 128;
constexpr int64_t kMiddleLines = 5;  // four are read while the next two are there already
static_assert(kLongStrip % 2 == 0);

/// Lines of a strip where nothing is added up: more, because four are computed twice for each, but enough strips for
/// the threads. Strips begin at even lines, so that their length changes no bit.
int64_t long_strip(at::IntArrayRef nhw) {
  return std::clamp(rounded_up(nhw[0] * nhw[1] / (2 * at::get_num_threads()), 2), kStrip, kLongStrip);
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
  /// `dx`: as x has parts, or none.
  Back(const ConvInput& x, const ConvReturn& y, at::IntArrayRef nhw, const at::Tensor& kernel,
       const std::vector<at::Tensor>& dx, bool of_kernel)
      : x_(x.parts, nhw),
        dy_({y.gradient}, nhw),
        y_({y.rows}, nhw),
        dx_(dx, nhw),
        norm_x_(x.norm),
        norm_y_(y.norm->columns<T>()),
        centre_(centre_scales<T>(*y.centre)),
        of_kernel_(of_kernel),
        at_once_(std::clamp<int64_t>(kPixelsAtOnce / x_.width / 2 * 2, 2, kMostAtOnce)) {
    if (dx_.any()) weights_ = packed<T>(kernel, true);
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

  int64_t channels() const { return x_.channels; }

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
      if (back.dx_.any()) dx.emplace(back.x_.width, back.dy_.channels, back.x_.channels);
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
    x_.to_planes(strip, line, work.x.at(line));
    if (norm_x_ != nullptr)
      kernels_.normalise(x_.width, x_.channels, const_planes(work.x.at(line)), norm_x_->columns<T>(),
                         work.normalised.at(line));
    dy_.to_planes(strip, line, work.dy.at(line));
    y_.to_planes(strip, line, work.y.at(0));
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
    for (const Pictures<T>* read : {&x_, &dy_, &y_}) read->read_ahead(ahead, strip, line + at_once_ + 1, 2);
    dx_.write_ahead(ahead, strip, line, count);
    work.dx->convolve(work.dy.around(line), weights_.data(), ahead);
    for (int64_t i = 0; i < count; ++i) finish(work, strip, line + i, work.dx->y(i));
  }

  void finish(Work& work, const Strip& strip, int64_t line, Planes<T> dx) {
    dx_.to_pixels(strip, line, const_planes(dx));
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
  Pictures<T> x_, dy_, y_, dx_;
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

/// This line, or 0 where the picture has none.
template <class T>
void load_line(const Pictures<T>& from, const Strip& strip, int64_t line, Lines<T>& lines) {
  if (from.has(line))
    from.to_planes(strip, line, lines.at(line));
  else
    lines.clear(line);
}

}  // namespace

ConvOutput convolved(const ConvInput& x, at::IntArrayRef nhw, const at::Tensor& kernel) {
  const int64_t out = kernel.size(0), width = nhw[2], pixels = nhw[0] * nhw[1] * width;
  const at::TensorOptions options = x.parts.front().options();
  ConvOutput result{at::empty({pixels, out}, options), {}, {}};
  with_type(result.rows, [&](auto zero) {
    using T = decltype(zero);
    const ConvKernels<T>& kernels = conv_kernels<T>();
    const Pictures<T> from(x.parts, nhw), to({result.rows}, nhw);
    const std::vector<T> weights = packed<T>(kernel, false);
    Moments<T> moments(pixels, out, width);
    for_strips(nhw, [&](const Strip& strip) {
      Lines<T> lines(4, width, from.channels);
      TwoLines<T> y(width, from.channels, out);
      const auto load = [&](int64_t line) {
        load_line(from, strip, line, lines);
        if (x.norm != nullptr && from.has(line))
          kernels.normalise(width, from.channels, const_planes(lines.at(line)), x.norm->columns<T>(), lines.at(line));
      };
      load(strip.first - 1);
      load(strip.first);
      for (int64_t line = strip.first; line < strip.last; line += 2) {
        load(line + 1);
        load(line + 2);
        const int64_t count = std::min<int64_t>(2, strip.last - line);
        Ahead ahead;
        from.read_ahead(ahead, strip, line + 3, 2);
        to.write_ahead(ahead, strip, line, count);
        y.convolve(lines.around(line), weights.data(), ahead);
        for (int64_t i = 0; i < count; ++i) {
          const Planes<const T> planes = const_planes(y.y(i));
          T* const mean = moments.part(strip.picture * nhw[1] + line + i);
          kernels.moments(width, out, planes, mean, mean + out);
          to.to_pixels(strip, line + i, planes);
        }
      }
    });
    result.mean = at::empty({out}, options);
    result.variance = at::empty_like(result.mean);
    moments.finish(result.mean.template data_ptr<T>(), result.variance.template data_ptr<T>());
  });
  return result;
}

EvaluatedPair evaluated_pair(const ConvInput& x, at::IntArrayRef nhw, const RectifiedConv& first,
                             const RectifiedConv& second, bool with_pooled) {
  const int64_t between = first.kernel.size(0), out = second.kernel.size(0), height = nhw[1], width = nhw[2];
  const std::array<int64_t, 3> half{nhw[0], height / 2, width / 2};
  const at::TensorOptions options = x.parts.front().options();
  EvaluatedPair result{at::empty({nhw[0] * height * width, out}, options), {}};
  if (with_pooled) result.pooled = at::empty({half[0] * half[1] * half[2], out}, options);
  with_type(result.rows, [&](auto zero) {
    using T = decltype(zero);
    const ConvKernels<T>& kernels = conv_kernels<T>();
    const Pictures<T> from(x.parts, nhw), to({result.rows}, nhw);
    const Pictures<T> pooled(with_pooled ? std::vector{result.pooled} : std::vector<at::Tensor>{}, half);
    const std::vector<T> weights = packed<T>(first.kernel, false), next_weights = packed<T>(second.kernel, false);
    for_strips(nhw, long_strip(nhw), [&](const Strip& strip) {
      Lines<T> lines(4, width, from.channels), middle(kMiddleLines, width, between), largest(1, half[2], out);
      TwoLines<T> one(width, from.channels, between), two(width, between, out);
      // Lines of the first, this and the next, which lie as they do in any other strip: so do their bits.
      const auto convolve = [&](int64_t line) {
        if (!from.has(line)) {
          middle.clear(line);
          return middle.clear(line + 1);
        }
        load_line(from, strip, line + 1, lines);
        load_line(from, strip, line + 2, lines);
        Ahead ahead;
        from.read_ahead(ahead, strip, line + 3, 2);
        one.convolve(lines.around(line), weights.data(), ahead);
        for (int64_t i = 0; i < 2; ++i)
          if (from.has(line + i))
            kernels.normalise(width, between, const_planes(one.y(i)), first.norm.columns<T>(), middle.at(line + i));
          else
            middle.clear(line + i);
      };
      const int64_t begin = std::max<int64_t>(strip.first - 2, 0);
      load_line(from, strip, begin - 1, lines);
      load_line(from, strip, begin, lines);
      for (int64_t line = begin; line <= strip.first; line += 2) convolve(line);
      for (int64_t line = strip.first; line < strip.last; line += 2) {
        convolve(line + 2);
        const int64_t count = std::min<int64_t>(2, strip.last - line);
        Ahead ahead;
        to.write_ahead(ahead, strip, line, count);
        two.convolve(middle.around(line), next_weights.data(), ahead);
        for (int64_t i = 0; i < count; ++i) {
          kernels.normalise(width, out, const_planes(two.y(i)), second.norm.columns<T>(), two.y(i));
          to.to_pixels(strip, line + i, const_planes(two.y(i)));
        }
        if (!with_pooled || !pooled.has(line / 2)) continue;
        kernels.halve(width, out, const_planes(two.y(0)), const_planes(two.y(1)), largest.at(0));
        pooled.to_pixels(strip, line / 2, const_planes(largest.at(0)));
      }
    });
  });
  return result;
}

NormSums norm_sums(const at::Tensor& gradient, const at::Tensor& rows, const NormScales& norm, at::IntArrayRef nhw) {
  NormSums result;
  with_type(rows, [&](auto zero) {
    using T = decltype(zero);
    const ConvKernels<T>& kernels = conv_kernels<T>();
    const Pictures<T> dy({gradient}, nhw), x({rows}, nhw);
    std::vector<double> parts(static_cast<size_t>(strips_of(nhw) * 2 * x.channels));
    for_strips(nhw, [&](const Strip& strip) {
      Lines<T> of_dy(1, x.width, x.channels), of_x(1, x.width, x.channels);
      std::vector<T> row(static_cast<size_t>(2 * x.channels));
      for (int64_t line = strip.first; line < strip.last; ++line) {
        dy.to_planes(strip, line, of_dy.at(0));
        x.to_planes(strip, line, of_x.at(0));
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
  for (const at::Tensor& part : x.parts)
    if (of_input) result.input.push_back(at::empty_like(part));
  const at::TensorOptions options = x.parts.front().options();
  with_type(x.parts.front(), [&](auto zero) {
    using T = decltype(zero);
    Back<T> back(x, y, nhw, kernel, result.input, of_kernel);
    for_strips(nhw, [&](const Strip& strip) { back.run(strip); });
    if (of_kernel) result.kernel = added_up(back.kernel_parts, kernel.numel(), options).view(kernel.sizes());
    if (of_input && x.norm != nullptr) result.norm = as_sums(added_up(back.norm_parts, 2 * back.channels(), options));
  });
  return result;
}

}  // namespace dtrain
