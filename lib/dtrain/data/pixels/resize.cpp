#include "dtrain/data/pixels/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dtrain/data/pixels/weighted_rows.hpp"

namespace dtrain {

namespace {

/// Filter weights of one axis: canvas pixel i is the sum over t < taps of weights[i·taps + t] × input[begin[i] + t].
struct AxisWeights {
  int64_t first = 0;  // the picture covers canvas pixels [first, last)
  int64_t last = 0;
  int64_t taps = 0;
  std::vector<int64_t> begin;
  std::vector<float> weights;
};

struct Filter {  // of one resized pixel
  int64_t begin = 0;
  std::vector<double> weights;
};

Filter filter_at(const AxisFit& fit, int64_t place) {
  const double scale = static_cast<double>(fit.input) / fit.resized;
  const double support = std::max(scale, 1.0);
  const double centre = scale * (static_cast<double>(place) - fit.offset + 0.5);
  Filter filter;
  filter.begin = std::max<int64_t>(0, static_cast<int64_t>(centre - support + 0.5));
  const int64_t end = std::min(fit.input, static_cast<int64_t>(centre + support + 0.5));
  double sum = 0;
  for (int64_t i = filter.begin; i < end; ++i) {
    const double distance = std::abs((static_cast<double>(i) - centre + 0.5) / support);
    filter.weights.push_back(std::max(0.0, 1.0 - distance));
    sum += filter.weights.back();
  }
  for (double& weight : filter.weights) weight /= sum;
  return filter;
}

// All filters get the same number of taps, so that the loops over pixels have no branches; short ones at the border are
// moved inwards and filled up with zeros.
AxisWeights weights_of(const AxisFit& fit) {
  AxisWeights axis;
  axis.first = fit.first();
  axis.last = fit.last();
  std::vector<Filter> filters;
  for (int64_t i = axis.first; i < axis.last; ++i) {
    filters.push_back(filter_at(fit, i));
    axis.taps = std::max(axis.taps, static_cast<int64_t>(filters.back().weights.size()));
  }
  axis.begin.reserve(filters.size());
  axis.weights.assign(filters.size() * static_cast<size_t>(axis.taps), 0);
  for (size_t f = 0; f < filters.size(); ++f) {
    axis.begin.push_back(std::min(filters[f].begin, fit.input - axis.taps));
    const auto moved = static_cast<size_t>(filters[f].begin - axis.begin[f]);
    for (size_t t = 0; t < filters[f].weights.size(); ++t)
      axis.weights[f * static_cast<size_t>(axis.taps) + moved + t] = static_cast<float>(filters[f].weights[t]);
  }
  return axis;
}

/// The same column of eight rows, summed side by side: within one sum each addition has to wait for the one before.
using Eight = float __attribute__((vector_size(32)));
constexpr int64_t kRows = 8;

[[gnu::always_inline]] inline void stand_side_by_side(const float* rows, int64_t length, float* columns) {
  for (int64_t x = 0; x < length; ++x)
    for (int64_t r = 0; r < kRows; ++r) columns[x * kRows + r] = rows[r * length + x];
}

/// Writes the first `count` of eight rows, `stride` values apart.
template <int kChannels>
[[gnu::always_inline]] inline void add_columns(const float* columns, const AxisWeights& axis, float scale,
                                               int64_t count, int64_t stride, float* out) {
  const float* weights = axis.weights.data();
  for (const int64_t begin : axis.begin) {
    const float* pixels = columns + begin * kChannels * kRows;
    Eight sum[kChannels] = {};
    for (int64_t t = 0; t < axis.taps; ++t)
      for (int c = 0; c < kChannels; ++c, pixels += kRows) {
        Eight column;
        std::memcpy(&column, pixels, sizeof column);
        sum[c] += weights[t] * column;
      }
    for (int c = 0; c < kChannels; ++c, ++out) {
      sum[c] *= scale;
      for (int64_t r = 0; r < count; ++r) out[r * stride] = sum[c][r];
    }
    weights += axis.taps;
  }
}

/// The same for any number of channels, by the same additions.
[[gnu::always_inline]] inline void add_columns_of(int64_t channels, const float* columns, const AxisWeights& axis,
                                                  float scale, int64_t count, int64_t stride, float* out) {
  const float* weights = axis.weights.data();
  for (const int64_t begin : axis.begin) {
    for (int64_t c = 0; c < channels; ++c, ++out) {
      const float* pixels = columns + (begin * channels + c) * kRows;
      Eight sum = {};
      for (int64_t t = 0; t < axis.taps; ++t, pixels += channels * kRows) {
        Eight column;
        std::memcpy(&column, pixels, sizeof column);
        sum += weights[t] * column;
      }
      sum *= scale;
      for (int64_t r = 0; r < count; ++r) out[r * stride] = sum[r];
    }
    weights += axis.taps;
  }
}

/// One call of resize_values().
struct Job {
  AxisWeights rows;
  AxisWeights columns;
  int64_t canvas = 0;  // pixels in a row of `out`
  int64_t width = 0;   // pixels in a row of the input
  int64_t channels = 0;
  float scale = 1;
  float* out = nullptr;
  std::vector<float> sums;  // of kRows rows
  std::vector<float> columns_of_sums;
};

// Rows first: that is the larger pass, and it reads memory in order.
template <typename Value>
[[gnu::always_inline]] inline void resize_values(const Value* values, Job& job) {
  const int64_t length = job.width * job.channels;
  const int64_t stride = job.canvas * job.channels;
  for (int64_t first = job.rows.first; first < job.rows.last; first += kRows) {
    const int64_t count = std::min(kRows, job.rows.last - first);
    for (int64_t r = 0; r < count; ++r) {
      const auto place = static_cast<size_t>(first + r - job.rows.first);
      add_rows(values + job.rows.begin[place] * length, length,
               job.rows.weights.data() + place * static_cast<size_t>(job.rows.taps), job.rows.taps, length,
               job.sums.data() + r * length);
    }
    stand_side_by_side(job.sums.data(), length, job.columns_of_sums.data());
    float* out = job.out + first * stride + job.columns.first * job.channels;
    if (job.channels == 1) {
      add_columns<1>(job.columns_of_sums.data(), job.columns, job.scale, count, stride, out);
    } else if (job.channels == 3) {
      add_columns<3>(job.columns_of_sums.data(), job.columns, job.scale, count, stride, out);
    } else {
      add_columns_of(job.channels, job.columns_of_sums.data(), job.columns, job.scale, count, stride, out);
    }
  }
}

// DTRAIN_VECTOR_CLONES comes from CMake's dtrain_vector_code().
DTRAIN_VECTOR_CLONES void resize_bytes(const uint8_t* values, Job& job) { resize_values(values, job); }
DTRAIN_VECTOR_CLONES void resize_words(const uint16_t* values, Job& job) { resize_values(values, job); }
DTRAIN_VECTOR_CLONES void resize_floats(const float* values, Job& job) { resize_values(values, job); }

Job resize_job(const Fit& fit, int64_t channels, float scale, float* out) {
  const int64_t width = fit.columns.input;
  Job job{weights_of(fit.rows), weights_of(fit.columns), fit.columns.canvas, width, channels, scale, out, {}, {}};
  const auto length = static_cast<size_t>(width * channels);
  job.sums.resize(length * kRows);
  job.columns_of_sums.resize(length * kRows);
  std::fill(out, out + fit.rows.canvas * fit.columns.canvas * channels, 0.0F);
  return job;
}

AxisFit centred(int64_t input, int64_t resized, int64_t canvas) {
  const int64_t room = canvas - resized;
  return {input, static_cast<double>(resized), static_cast<double>(room >= 0 ? room / 2 : -(-room / 2)), canvas};
}

}  // namespace

int64_t AxisFit::first() const { return std::clamp(static_cast<int64_t>(std::ceil(offset - 0.5)), int64_t{0}, canvas); }

int64_t AxisFit::last() const {
  return std::clamp(static_cast<int64_t>(std::ceil(offset + resized - 0.5)), first(), canvas);
}

Fit fit_picture(int64_t height, int64_t width, const ImageOptions& options) {
  if (options.resize == Resize::squash)
    return {centred(height, options.height, options.height), centred(width, options.width, options.width)};
  const double by_height = static_cast<double>(options.height) / static_cast<double>(height);
  const double by_width = static_cast<double>(options.width) / static_cast<double>(width);
  const bool pad = options.resize == Resize::pad;
  const double scale = pad ? std::min(by_height, by_width) : std::max(by_height, by_width);
  const auto resized = [&](int64_t input, int64_t canvas) {
    const int64_t length = std::max<int64_t>(1, std::llround(scale * static_cast<double>(input)));
    return pad ? std::min(length, canvas) : std::max(length, canvas);
  };
  return {centred(height, resized(height, options.height), options.height),
          centred(width, resized(width, options.width), options.width)};
}

std::vector<int64_t> nearest_pixels(const AxisFit& fit) {
  std::vector<int64_t> pixels(static_cast<size_t>(fit.canvas), -1);
  for (int64_t i = fit.first(); i < fit.last(); ++i)
    pixels[static_cast<size_t>(i)] =
        std::min(static_cast<int64_t>(fit.input_at(static_cast<double>(i) + 0.5)), fit.input - 1);
  return pixels;
}

template <typename Value>
static std::vector<float> ranged(const std::vector<Value>& values, const ImageOptions& options) {
  const auto low = static_cast<float>(options.range_low);
  const auto factor = static_cast<float>(1 / (options.range_high - options.range_low));
  std::vector<float> out(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    out[i] = std::clamp((static_cast<float>(values[i]) - low) * factor, 0.0F, 1.0F);
  return out;
}

bool has_range(const ImageOptions& options, int bits) {
  const double white = bits == 16 ? 65535 : 255;
  return options.range_high != options.range_low && (options.range_low != 0 || options.range_high != white);
}

void resize_picture(const Image& picture, const Fit& fit, const ImageOptions& options, float* out) {
  const bool words = picture.bits == 16;
  const bool spread = has_range(options, picture.bits);
  Job job = resize_job(fit, picture.channels, spread ? 1.0F : 1.0F / (words ? 65535.0F : 255.0F), out);
  if (spread) {
    resize_floats((words ? ranged(picture.words, options) : ranged(picture.bytes, options)).data(), job);
  } else if (words) {
    resize_words(picture.words.data(), job);
  } else {
    resize_bytes(picture.bytes.data(), job);
  }
}

void resize_plane(const std::vector<float>& values, const Fit& fit, float* out) {
  Job job = resize_job(fit, 1, 1.0F, out);
  resize_floats(values.data(), job);
}

}  // namespace dtrain
