#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "dtrain/base/shards.hpp"

namespace dtrain {

/// Ranges cut into chunks for kernels::sums_of_squares() and sums_of_parts(). How a range is cut depends on its size
/// alone, and so does the order of additions.
struct NormChunks {
  std::vector<int64_t> bounds;  ///< begin and end of each chunk
  std::vector<int64_t>
      first;  ///< number of each range's first chunk, and the number of all chunks; ranges may be empty
};

inline NormChunks cut_for_norm(const std::vector<Range>& ranges, int64_t floats_per_chunk) {
  NormChunks chunks{{}, {0}};
  for (const Range& range : ranges) {
    for (int64_t begin = range.begin; begin < range.end; begin += floats_per_chunk)
      chunks.bounds.insert(chunks.bounds.end(), {begin, std::min(range.end, begin + floats_per_chunk)});
    chunks.first.push_back(static_cast<int64_t>(chunks.bounds.size() / 2));
  }
  return chunks;
}

}  // namespace dtrain
