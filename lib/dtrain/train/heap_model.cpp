#include "dtrain/train/heap_model.hpp"

#include <algorithm>
#include <utility>

namespace dtrain {

// Tensors begin at cache lines.
static int64_t rounded(int64_t bytes) {
  constexpr int64_t kLine = 64;
  return (std::max<int64_t>(bytes, 1) + kLine - 1) / kLine * kLine;
}

HeapModel::Piece::Piece(HeapModel& heap, int64_t bytes)
    : heap_(heap), begin_(heap.place(rounded(bytes))), size_(rounded(bytes)) {}

HeapModel::Piece::~Piece() { heap_.give_back(begin_, size_); }

int64_t HeapModel::place(int64_t size) {
  held_ += size;
  most_held_ = std::max(most_held_, held_);
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap)
    if (gap->second > size && (best == gaps_.end() || gap->second < best->second)) best = gap;
  if (best == gaps_.end()) {
    end_ += size;
    reach_ = std::max(reach_, end_);
    return end_ - size;
  }
  const auto [begin, room] = *best;
  gaps_.erase(best);
  gaps_.emplace(begin + size, room - size);
  return begin;
}

void HeapModel::give_back(int64_t begin, int64_t size) {
  held_ -= size;
  if (begin + size == end_) {
    end_ = begin;
  } else {
    gaps_.emplace(begin, size);
  }
  if (!pinned_) join();
}

void HeapModel::join() {
  std::map<int64_t, int64_t> joined;
  for (const auto& [begin, size] : gaps_) {
    if (!joined.empty() && joined.rbegin()->first + joined.rbegin()->second == begin) {
      joined.rbegin()->second += size;
    } else {
      joined.emplace(begin, size);
    }
  }
  if (!joined.empty() && joined.rbegin()->first + joined.rbegin()->second == end_) {
    end_ = joined.rbegin()->first;
    joined.erase(end_);
  }
  gaps_ = std::move(joined);
}

}  // namespace dtrain
