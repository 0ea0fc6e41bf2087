#pragma once
#include <cstdint>
#include <map>
#include <string>
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
  Some black, white, flat;      ///< of one value throughout: 0, the depth's largest, another
  Some beyond_range;            ///< wholly at or below the range, or at or above it; none where none is set
  double range_low = 0;         ///< data.image.range; both 0: not set
  double range_high = 0;

  /// Of one picture: its pixels lie between `lowest` and `highest`, both there.
  void add(const std::string& name, int bits, int64_t lowest, int64_t highest);
  bool has_range() const { return range_low != 0 || range_high != 0; }
  int64_t pictures() const;
};

/// Depths of which the pictures use a small share, with the data.image.range that shows it; pictures that a range
/// leaves black or white; pictures of one value; a range over two depths.
std::vector<Finding> pixel_advice(const PixelFacts& facts);

}  // namespace dtrain
