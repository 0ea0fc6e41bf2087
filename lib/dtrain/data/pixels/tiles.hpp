#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace dtrain {

/// A picture that is larger than what a network sees at once, cut into overlapping tiles, and what the network says of
/// these put together again, as nnU-Net does (Isensee et al., "nnU-Net: a self-configuring method for deep
/// learning-based biomedical image segmentation", Nature Methods 2021): along each axis tiles lie as evenly as whole
/// pixels allow, at most (1 − overlap) of a tile apart, the first and the last at the edges; each pixel is the mean
/// over the tiles that have seen it, weighted by a Gaussian about the tile's centre with a standard deviation of 1/8 of
/// its side. Sums run over the tiles in their order, in float32.
class Tiling {
 public:
  /// The picture is at least as large as a tile; 0 <= overlap < 1.
  Tiling(int64_t height, int64_t width, int64_t tile_height, int64_t tile_width, double overlap);

  struct Tile {
    int64_t top = 0;
    int64_t left = 0;
  };
  /// Row by row; a picture of a tile's size has one.
  const std::vector<Tile>& tiles() const { return tiles_; }

  /// Adds what the network says of tile number `tile`, [tile_height × tile_width], to a plane of sums
  /// [height × width] that began as zeros. Tiles are added in their order, all of them.
  void add(size_t tile, std::span<const float> said, std::span<float> sums) const;
  /// The sums → the weighted means, in place. With one tile both are what was said, bit for bit.
  void finish(std::span<float> sums) const;

  /// How much a tile's pixel counts, [tile_height × tile_width]: 1 at the centre, or just below where it lies between
  /// pixels; never 0.
  const std::vector<float>& weights() const { return weights_; }

 private:
  int64_t height_, width_, tile_height_, tile_width_;
  std::vector<Tile> tiles_;
  std::vector<float> weights_;
  std::vector<float> all_weights_;  // of each pixel of the picture
};

}  // namespace dtrain
