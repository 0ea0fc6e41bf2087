#include "dtrain/base/block_map.hpp"

#include <algorithm>

#include "dtrain/base/error.hpp"

namespace dtrain {

static int64_t rounded(int64_t bytes) {
  constexpr int64_t kLine = 64;
  return (std::max<int64_t>(bytes, 1) + kLine - 1) / kLine * kLine;
}

int64_t BlockMap::take(int64_t bytes) {
  const int64_t size = rounded(bytes);
  int64_t offset = end_;
  const auto best = by_size_.lower_bound({size, 0});
  if (best == by_size_.end()) {
    end_ += size;
    reach_ = std::max(reach_, end_);
  } else {
    const auto gap = gaps_.find(best->second);
    const auto [begin, room] = *gap;
    offset = begin;
    remove_gap(gap);
    if (room > size) add_gap(begin + size, room - size);
  }
  blocks_.emplace(offset, size);
  held_ += size;
  most_held_ = std::max(most_held_, held_);
  return offset;
}

void BlockMap::give_back(int64_t offset) {
  const auto block = blocks_.find(offset);
  check(block != blocks_.end(), "a block is given back that was not taken");
  int64_t begin = offset, bytes = block->second;
  held_ -= bytes;
  blocks_.erase(block);
  const auto behind = gaps_.lower_bound(begin);
  if (behind != gaps_.begin()) {
    if (const auto before = std::prev(behind); before->first + before->second == begin) {
      begin = before->first;
      bytes += before->second;
      remove_gap(before);
    }
  }
  if (behind != gaps_.end() && begin + bytes == behind->first) {
    bytes += behind->second;
    remove_gap(behind);
  }
  if (begin + bytes == end_) {
    end_ = begin;
  } else {
    add_gap(begin, bytes);
  }
}

void BlockMap::add_gap(int64_t offset, int64_t bytes) {
  by_size_.emplace(bytes, offset);
  try {
    gaps_.emplace(offset, bytes);
  } catch (...) {
    by_size_.erase({bytes, offset});
    throw;
  }
}

void BlockMap::remove_gap(std::map<int64_t, int64_t>::iterator gap) {
  by_size_.erase({gap->second, gap->first});
  gaps_.erase(gap);
}

}  // namespace dtrain
