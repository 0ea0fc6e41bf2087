#pragma once
#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "dtrain/model/conv_kernels.hpp"
#include "dtrain/model/row_passes.hpp"

/// What the passes of conv_passes.hpp are made of: pictures in NHWC memory, strips of their lines, one for a thread,
/// and lines whose channels are apart.
namespace dtrain {

inline constexpr int64_t kStrip = 32;  ///< lines that a thread takes at a time, for which it adds up sums; even
inline constexpr int64_t kChunk = 96;  ///< pixels between two looks ahead

inline int64_t rounded_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

template <class T>
Planes<const T> const_planes(Planes<T> planes) {
  return {planes.data, planes.stride};
}

// At the start of a cache line.
template <class T>
at::Tensor zero_values(int64_t count) {
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
    memory_ = zero_values<T>(count * size_);
  }

  Planes<T> at(int64_t line) {
    return {memory_.template data_ptr<T>() + (line + count_) % count_ * size_ + lanes_, stride_};
  }
  void clear(int64_t line) { std::memset(at(line).data - lanes_, 0, static_cast<size_t>(size_) * sizeof(T)); }
  /// Those that a convolution reads for this line and the next.
  std::array<const T*, 4> around(int64_t line) {
    return {at(line - 1).data, at(line).data, at(line + 1).data, at(line + 2).data};
  }
  std::array<T*, 4> first_four() { return {at(0).data, at(1).data, at(2).data, at(3).data}; }

 private:
  int64_t count_, size_, lanes_, stride_ = 0;
  at::Tensor memory_;
};

/// Lines of memory that are needed next: asked for while a line is computed, because a core that waits for memory first
/// and computes then is half as fast.
class Ahead {
 public:
  void reads(const void* from, size_t bytes) { add({static_cast<const char*>(from), bytes, false}); }
  void writes(const void* from, size_t bytes) { add({static_cast<const char*>(from), bytes, true}); }

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
  void add(const Range& range) {
    if (count_ < ranges_.size()) ranges_[count_++] = range;
  }

  std::array<Range, 8> ranges_{};
  size_t count_ = 0;
};

/// Some lines of one picture, by their number in it.
struct Strip {
  int64_t number, picture, first, last;
};

inline int64_t strips_of(at::IntArrayRef nhw) { return nhw[0] * ((nhw[1] + kStrip - 1) / kStrip); }

/// Calls body(Strip) for strips of so many lines each, but for a picture's last. A strip's number counts those of this
/// length.
template <class Body>
void for_strips(at::IntArrayRef nhw, int64_t lines, const Body& body) {
  const int64_t of_picture = (nhw[1] + lines - 1) / lines;
  at::parallel_for(0, nhw[0] * of_picture, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % of_picture * lines;
      body(Strip{i, i / of_picture, first, std::min(nhw[1], first + lines)});
    }
  });
}
template <class Body>
void for_strips(at::IntArrayRef nhw, const Body& body) {
  for_strips(nhw, kStrip, body);
}

/// Where the lines of pictures are in memory. Their channels follow one another in planes, and may come in parts.
template <class T>
class Pictures {
 public:
  /// Rows of each part; of no parts there are no pictures.
  Pictures(const std::vector<at::Tensor>& parts, at::IntArrayRef nhw) : height(nhw[1]), width(nhw[2]) {
    for (const at::Tensor& rows : parts) {
      parts_.push_back({rows.data_ptr<T>(), rows.size(1)});
      channels += rows.size(1);
    }
  }

  bool any() const { return !parts_.empty(); }
  bool has(int64_t line) const { return line >= 0 && line < height; }

  void to_planes(const Strip& strip, int64_t line, Planes<T> planes) const {
    for (const Part& part : parts_) {
      conv_kernels<T>().to_planes(width, part.channels, place(part, strip, line), planes);
      planes = planes.at(part.channels);
    }
  }
  void to_pixels(const Strip& strip, int64_t line, Planes<const T> planes) const {
    for (const Part& part : parts_) {
      conv_kernels<T>().to_pixels(width, part.channels, planes, place(part, strip, line));
      planes = planes.at(part.channels);
    }
  }
  /// From this line on, as far as there are so many.
  void read_ahead(Ahead& ahead, const Strip& strip, int64_t line, int64_t count) const {
    const int64_t lines = std::min(count, height - line);
    for (const Part& part : parts_)
      if (lines > 0) ahead.reads(place(part, strip, line), bytes(part, lines));
  }
  void write_ahead(Ahead& ahead, const Strip& strip, int64_t line, int64_t count) const {
    for (const Part& part : parts_) ahead.writes(place(part, strip, line), bytes(part, count));
  }

  int64_t height, width, channels = 0;

 private:
  struct Part {
    T* data;
    int64_t channels;
  };
  T* place(const Part& part, const Strip& strip, int64_t line) const {
    return part.data + (strip.picture * height + line) * width * part.channels;
  }
  size_t bytes(const Part& part, int64_t lines) const {
    return static_cast<size_t>(lines * width * part.channels) * sizeof(T);
  }

  std::vector<Part> parts_;
};

/// As ConvKernels::convolve reads it; `back`: of the convolution that leads from y's gradient to x's.
template <class T>
std::vector<T> packed(const at::Tensor& kernel, bool back) {
  const at::Tensor whole = (back ? kernel.flip({2, 3}).transpose(0, 1) : kernel).contiguous();
  const int64_t tile = conv_kernels<T>().tile, out = whole.size(0), taps = whole.size(1) * 3;
  std::vector<T> result(static_cast<size_t>(rounded_up(out, tile) * 4 * taps), T(0));
  const T* from = whole.const_data_ptr<T>();
  for (int64_t o = 0; o < out; ++o)
    for (int64_t k = 0; k < taps; ++k) {
      const T* const g = from + o * 3 * taps + k / 3 * 9 + k % 3;
      const std::array<T, 4> mixed{g[0], (g[0] + g[3] + g[6]) / 2, (g[0] - g[3] + g[6]) / 2, g[6]};
      for (size_t i = 0; i < 4; ++i)
        result[static_cast<size_t>(((o / tile * 4 + static_cast<int64_t>(i)) * taps + k) * tile + o % tile)] = mixed[i];
    }
  return result;
}

static_assert(kStrip % 2 == 0);

/// One line of a convolution and the next, from the four around them.
template <class T>
class TwoLines {
 public:
  TwoLines(int64_t pixels, int64_t in, int64_t out)
      : pixels_(pixels), in_(in), out_(out), mixed_(4, pixels, in), y_(2, pixels, out) {}

  void convolve(const std::array<const T*, 4>& around, const T* weights, const Ahead& ahead) {
    const std::array<T*, 4> mixed = mixed_.first_four();
    conv_kernels<T>().mix(pixels_, in_, y_.at(0).stride, around.data(), mixed.data());
    const size_t parts = static_cast<size_t>((pixels_ + kChunk - 1) / kChunk);
    for (size_t part = 0; part < parts; ++part) {
      ahead.fetch(part, parts);
      const int64_t p = static_cast<int64_t>(part) * kChunk;
      const std::array<const T*, 4> from{mixed[0] + p, mixed[1] + p, mixed[2] + p, mixed[3] + p};
      conv_kernels<T>().convolve(std::min(kChunk, pixels_ - p), in_, out_, from.data(), weights, y_.at(0).at(0, p),
                                 y_.at(1).at(0, p));
    }
  }

  /// The first line of the result, or the second.
  Planes<T> y(int64_t which) { return y_.at(which); }

 private:
  int64_t pixels_, in_, out_;
  Lines<T> mixed_, y_;
};

}  // namespace dtrain
