#pragma once
#include <cstdint>
#include <map>
#include <memory>

namespace dtrain {

/// Where the C library puts blocks of memory as they are allocated and freed, one after another: in the smallest gap
/// that is wider (an aligned block does not fit a gap of its own size), else at the end. Nothing goes back to the
/// kernel (main() ensures that), so a process uses as much as the end has ever reached. That is glibc's posix_memalign
/// for large blocks, without mmap (D. Lea, "A memory allocator", 2000), except for the bytes of its block headers.
///
/// Gaps that touch become one. Small objects, which settle between the blocks, can keep them apart as long as they
/// live: with `pinned` gaps merge only at join(). The truth lies between the two.
/// Computes with addresses; no memory is allocated.
class HeapModel {
 public:
  /// A block, freed when its last holder is gone. The model outlives it.
  class Piece {
   public:
    Piece(HeapModel& heap, int64_t bytes);
    ~Piece();
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;

   private:
    HeapModel& heap_;
    int64_t begin_;
    int64_t size_;
  };
  using Held = std::shared_ptr<const Piece>;

  explicit HeapModel(bool pinned = false) : pinned_(pinned) {}

  Held take(int64_t bytes) { return std::make_shared<const Piece>(*this, bytes); }

  void set_pinned(bool pinned) { pinned_ = pinned; }
  /// The small objects are gone.
  void join();

  /// Bytes in blocks now, and the most at any time.
  int64_t held() const { return held_; }
  int64_t most_held() const { return most_held_; }
  /// How far the end has reached: most_held() and the gaps.
  int64_t reach() const { return reach_; }

 private:
  int64_t place(int64_t size);
  void give_back(int64_t begin, int64_t size);

  bool pinned_;
  std::map<int64_t, int64_t> gaps_;  // begin → size
  int64_t end_ = 0;
  int64_t reach_ = 0;
  int64_t held_ = 0;
  int64_t most_held_ = 0;
};

}  // namespace dtrain
