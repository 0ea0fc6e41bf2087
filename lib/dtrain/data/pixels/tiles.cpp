#include "dtrain/data/pixels/tiles.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/base/error.hpp"

namespace dtrain {

namespace {

std::vector<int64_t> tile_starts(int64_t length, int64_t tile, double overlap) {
  const auto room = static_cast<double>(length - tile);
  const double most = std::max(1.0, static_cast<double>(tile) * (1 - overlap));
  const auto gaps = static_cast<int64_t>(std::ceil(room / most));
  std::vector<int64_t> starts;
  for (int64_t i = 0; i <= gaps; ++i)
    starts.push_back(gaps == 0 ? 0 : std::llround(room * static_cast<double>(i) / static_cast<double>(gaps)));
  return starts;
}

std::vector<double> bell(int64_t length) {
  const double centre = static_cast<double>(length - 1) / 2, deviation = static_cast<double>(length) / 8;
  std::vector<double> weights;
  for (int64_t i = 0; i < length; ++i) {
    const double away = (static_cast<double>(i) - centre) / deviation;
    weights.push_back(std::exp(-away * away / 2));
  }
  return weights;
}

}  // namespace

Tiling::Tiling(int64_t height, int64_t width, int64_t tile_height, int64_t tile_width, double overlap)
    : height_(height), width_(width), tile_height_(tile_height), tile_width_(tile_width) {
  check(tile_height >= 1 && tile_width >= 1 && height >= tile_height && width >= tile_width,
        "a tile fits into the picture");
  check(overlap >= 0 && overlap < 1, "the overlap of tiles lies in [0, 1)");
  const std::vector<int64_t> lefts = tile_starts(width, tile_width, overlap);
  for (const int64_t top : tile_starts(height, tile_height, overlap))
    for (const int64_t left : lefts) tiles_.push_back({top, left});
  const std::vector<double> columns = bell(tile_width);
  for (const double row : bell(tile_height))
    for (const double column : columns) weights_.push_back(static_cast<float>(row * column));
  all_weights_.assign(static_cast<size_t>(height * width), 0);
  const std::vector<float> ones(weights_.size(), 1);
  for (size_t tile = 0; tile < tiles_.size(); ++tile) add(tile, ones, all_weights_);
}

void Tiling::add(size_t tile, std::span<const float> said, std::span<float> sums) const {
  check(said.size() == weights_.size() && static_cast<int64_t>(sums.size()) == height_ * width_,
        "a tile is added to a plane of the picture's size");
  const bool only = tiles_.size() == 1;
  for (int64_t y = 0; y < tile_height_; ++y) {
    const int64_t from = y * tile_width_;
    float* to = sums.data() + (tiles_[tile].top + y) * width_ + tiles_[tile].left;
    for (int64_t x = 0; x < tile_width_; ++x) {
      const auto at = static_cast<size_t>(from + x);
      to[x] += only ? said[at] : weights_[at] * said[at];
    }
  }
}

void Tiling::finish(std::span<float> sums) const {
  check(sums.size() == all_weights_.size(), "sums are of the picture's size");
  if (tiles_.size() == 1) return;
  for (size_t i = 0; i < sums.size(); ++i) sums[i] /= all_weights_[i];
}

}  // namespace dtrain
