#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace dtrain {

/// Host memory that this process can still have: its memory budget. It is asked of the system whenever it is needed,
/// never remembered, because the other ranks of a host, LibTorch and the loader take from the same.
struct MemoryBudget {
  int64_t free_bytes = 0;   ///< >= 0
  int64_t limit_bytes = 0;  ///< of which they are what is left
  std::string bound;        ///< who sets the limit: "this host", "the control group /a/b", "ulimit -v", "ulimit -d"
};

/// The least of: what is available on the host, what each control group above the process leaves (versions 1 and 2; a
/// container's, a Slurm job's), and what ulimit -v and -d leave. File pages that the kernel can drop count as free.
/// Swap does not count. `root` stands before /proc and /sys, for tests. What cannot be read is no limit.
MemoryBudget memory_budget(const std::string& root = "");

/// Something that grows with what others wrote: an unpacked file, a table, a cache. It asks before it grows, so that
/// there is a sentence where the kernel would end the process without one. Small steps are free: the system is asked
/// once in 16 MiB. Any number of threads may use it.
class MemoryDraw {
 public:
  /// `what` begins the sentence ("decompressing a.tfrecord.gz"), `advice` ends it ("decompress it once with gunzip").
  MemoryDraw(std::string what, std::string advice, std::string root = "");

  /// `bytes` more are about to be taken. Throws Error with exit code 71 where the budget and, on a host that swaps, the
  /// swap have not that much, with 64 MiB to spare for everything else.
  void take(int64_t bytes);
  /// The same for what can do without: false where there is not that much, swap left aside.
  bool may_take(int64_t bytes);

 private:
  /// How many bytes to ask the system about, those of earlier calls included; 0 while they are too few to be worth it.
  int64_t due(int64_t bytes);

  std::string what_;
  std::string advice_;
  std::string root_;
  std::atomic<int64_t> unasked_{0};
};

}  // namespace dtrain
