#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace dtrain {

/// Where blocks lie in one stretch of memory as they are taken and given back, one after another: each in the smallest
/// gap that holds it, of equal ones the first, else at the end (best fit; Wilson et al., "Dynamic storage allocation: a
/// survey and critical review", 1995). Gaps that touch become one, and one at the end leaves it. So the same blocks in
/// the same order always come to lie at the same places, and what a training step needs again fits where it was.
///
/// Computes with offsets; no memory is allocated. Sizes are bytes, rounded up to cache lines of 64, 0 to one of them.
class BlockMap {
 public:
  /// The offset of a new block.
  int64_t take(int64_t bytes);
  /// `offset` is one that take() gave and that was not given back since. Throws InternalError otherwise, and
  /// std::bad_alloc where there is no memory to note the gap, which then is no one's.
  void give_back(int64_t offset);

  /// Bytes in blocks now, and the most at any time.
  int64_t held() const { return held_; }
  int64_t most_held() const { return most_held_; }
  /// The end of the last block now, and the furthest at any time: most_held() and the gaps.
  int64_t end() const { return end_; }
  int64_t reach() const { return reach_; }
  /// The gaps before end(), as offset → bytes.
  const std::map<int64_t, int64_t>& gaps() const { return gaps_; }

 private:
  void add_gap(int64_t offset, int64_t bytes);
  void remove_gap(std::map<int64_t, int64_t>::iterator gap);

  std::map<int64_t, int64_t> blocks_;              // offset → bytes
  std::map<int64_t, int64_t> gaps_;                // the same
  std::set<std::pair<int64_t, int64_t>> by_size_;  // of the gaps: bytes, offset
  int64_t end_ = 0;
  int64_t reach_ = 0;
  int64_t held_ = 0;
  int64_t most_held_ = 0;
};

}  // namespace dtrain
