#include "dtrain/metrics/surface.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "dtrain/base/error.hpp"

namespace dtrain {
namespace {

// Pixel indices, ascending.
std::vector<int64_t> surface_of(std::span<const uint8_t> mask, int64_t height, int64_t width) {
  std::vector<int64_t> surface;
  const auto in = [&](int64_t y, int64_t x) {
    return y >= 0 && y < height && x >= 0 && x < width && mask[static_cast<size_t>(y * width + x)] != 0;
  };
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      if (in(y, x) && !(in(y - 1, x) && in(y + 1, x) && in(y, x - 1) && in(y, x + 1))) surface.push_back(y * width + x);
  return surface;
}

constexpr int64_t kFar = std::numeric_limits<int32_t>::max();

// Distance of each pixel to the nearest of `to` in its column, kFar where there is none.
std::vector<int64_t> column_distances(const std::vector<int64_t>& to, int64_t height, int64_t width) {
  std::vector<int64_t> rows(static_cast<size_t>(height * width), kFar);
  for (const int64_t pixel : to) rows[static_cast<size_t>(pixel)] = 0;
  const auto follow = [&](int64_t pixel, int64_t before) {
    int64_t& one = rows[static_cast<size_t>(pixel)];
    one = std::min(one, rows[static_cast<size_t>(before)] + 1);
  };
  for (int64_t i = width; i < height * width; ++i) follow(i, i - width);
  for (int64_t i = (height - 1) * width - 1; i >= 0; --i) follow(i, i + width);
  for (int64_t& one : rows) one = std::min(one, kFar);
  return rows;
}

// Squared distances of the pixels of a row: the lower envelope of parabolas (Felzenszwalb & Huttenlocher, Theory of
// Computing 8:415–428, 2012). Squares are whole numbers, and where two parabolas cross is off by far less than the
// next pixel, so the result is exact. `row`: distances within each column.
class RowEnvelope {
 public:
  explicit RowEnvelope(std::span<const int64_t> row) {
    for (int64_t x = 0; x < static_cast<int64_t>(row.size()); ++x) {
      const int64_t distance = row[static_cast<size_t>(x)];
      if (distance >= kFar) continue;
      const Parabola one{x, distance * distance, -std::numeric_limits<double>::infinity()};
      add(one);
    }
  }
  int64_t at(int64_t x) {
    while (reached_ + 1 < lowest_.size() && lowest_[reached_ + 1].from < static_cast<double>(x)) ++reached_;
    const Parabola& one = lowest_[reached_];
    return (x - one.place) * (x - one.place) + one.height;
  }

 private:
  struct Parabola {
    int64_t place;
    int64_t height;
    double from;  // it is the lowest from here on
  };
  void add(Parabola one) {
    while (!lowest_.empty()) {
      const Parabola& last = lowest_.back();
      const int64_t rise = one.height + one.place * one.place - last.height - last.place * last.place;
      one.from = static_cast<double>(rise) / static_cast<double>(2 * (one.place - last.place));
      if (one.from > last.from) break;
      lowest_.pop_back();
    }
    if (lowest_.empty()) one.from = -std::numeric_limits<double>::infinity();
    lowest_.push_back(one);
  }
  std::vector<Parabola> lowest_;
  size_t reached_ = 0;
};

// The 95th percentile of the distances of `from` to the nearest of `to`, neither of them empty.
double directed_95(const std::vector<int64_t>& from, const std::vector<int64_t>& to, int64_t height, int64_t width) {
  const std::vector<int64_t> columns = column_distances(to, height, width);
  std::vector<int64_t> squares;
  for (size_t i = 0; i < from.size();) {
    const int64_t y = from[i] / width;
    const int64_t* row = columns.data() + y * width;
    RowEnvelope nearest({row, static_cast<size_t>(width)});
    for (; i < from.size() && from[i] / width == y; ++i) squares.push_back(nearest.at(from[i] % width));
  }
  const double place = static_cast<double>(squares.size() - 1) * 0.95;
  const auto low = static_cast<std::ptrdiff_t>(std::floor(place));
  std::nth_element(squares.begin(), squares.begin() + low, squares.end());
  const double below = std::sqrt(static_cast<double>(squares[static_cast<size_t>(low)]));
  if (low + 1 == static_cast<std::ptrdiff_t>(squares.size())) return below;
  const double above = std::sqrt(static_cast<double>(*std::min_element(squares.begin() + low + 1, squares.end())));
  const double share = place - std::floor(place);
  // NumPy's way, to the bit.
  return share < 0.5 ? below + (above - below) * share : above - (above - below) * (1 - share);
}

}  // namespace

std::optional<double> hausdorff_95(std::span<const uint8_t> one, std::span<const uint8_t> other, int64_t height,
                                   int64_t width) {
  const auto pixels = static_cast<size_t>(height * width);
  check(one.size() == pixels && other.size() == pixels, "both masks have the size of the picture");
  const std::vector<int64_t> first = surface_of(one, height, width);
  const std::vector<int64_t> second = surface_of(other, height, width);
  if (first.empty() || second.empty()) return std::nullopt;
  return std::max(directed_95(first, second, height, width), directed_95(second, first, height, width));
}

}  // namespace dtrain
