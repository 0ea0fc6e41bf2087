#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/advice/finding.hpp"

namespace dtrain {

/// What values the pixels of a data set have, as they are in the files.
struct PixelFacts {
  struct Depth {
    int64_t pictures = 0;
    int64_t lowest = 0;  ///< of all pixels
    int64_t highest = 0;
  };
  struct Some {
    int64_t pictures = 0;
    std::string first;  ///< the least name
    void add(const std::string& name);
  };
  std::map<int, Depth> depths;  ///< by bits, 8 and 16
  Some black, white, flat;      ///< of a single value: 0, the depth's largest, another
  Some beyond_range;            ///< entirely at or below the range, or at or above it; none if no range is set
  double range_low = 0;         ///< data.image.range; both 0: not set
  double range_high = 0;

  /// For one picture: its pixels lie between `lowest` and `highest`, and both occur.
  void add(const std::string& name, int bits, int64_t lowest, int64_t highest);
  bool has_range() const { return range_low != 0 || range_high != 0; }
  int64_t pictures() const;
};

/// The data.image.range that shows pictures which use a small share of their depth; none if they use more of it, are of
/// two depths, or a range is set.
std::optional<std::pair<int64_t, int64_t>> narrow_range(const PixelFacts& facts);

/// Depths of which the pictures use a small share, with the data.image.range that fits; pictures that a range makes
/// black or white; a range of a few values, as for pixels in [0, 1]; pictures of a single value; a range over two
/// depths.
std::vector<Finding> pixel_advice(const PixelFacts& facts);

}  // namespace dtrain
