#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "dtrain/base/block_map.hpp"

namespace dtrain {

/// Memory for large blocks that are needed again and again, laid out by a BlockMap. What is given back stays with the
/// process for the next block, without the kernel clearing it again; the kernel is asked for large pages
/// (madvise(2), MADV_HUGEPAGE). Any number of threads may use it.
class BlockArena {
 public:
  /// Reserves addresses for as much memory as the host has; memory itself is taken as blocks need it. Where addresses
  /// are limited (ulimit -v) it reserves none, since a reservation counts there, and gives no blocks.
  BlockArena();
  ~BlockArena();
  BlockArena(const BlockArena&) = delete;
  BlockArena& operator=(const BlockArena&) = delete;

  /// Whether it has addresses at all.
  bool is_there() const { return reserved_ > 0; }
  /// A block of `bytes`, aligned to 64 bytes, with any contents; nullptr where the kernel gives no more (ulimit -d,
  /// strict accounting) or the reservation is used up.
  void* take(size_t bytes);
  /// `block` is one that take() gave. Where there is no memory left to note its place, that is lost for later blocks.
  void give_back(void* block) noexcept;
  /// Whether `address` lies in the arena.
  bool holds(const void* address) const { return address >= begin_ && address < begin_ + reserved_; }
  /// Gives the memory of all gaps, and behind the last block, to the kernel.
  void trim();

 private:
  bool grow(int64_t bytes);

  std::byte* begin_ = nullptr;
  size_t reserved_ = 0;
  int64_t usable_ = 0;  // bytes from begin_ that may be written
  std::mutex mutex_;
  BlockMap map_;
};

}  // namespace dtrain
