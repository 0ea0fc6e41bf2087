#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace dtrain {

/// Host memory that this process can still use: its memory budget. It is read from the system whenever it is needed,
/// never stored, because the other ranks of a host, LibTorch and the loader take from the same memory.
struct MemoryBudget {
  int64_t free_bytes = 0;   ///< >= 0
  int64_t limit_bytes = 0;  ///< of which free_bytes are left
  std::string bound;        ///< what sets the limit: "this host", "the control group /a/b", "ulimit -v", "ulimit -d"
};

/// The least of: what is available on the host, what each control group above the process leaves (versions 1 and 2; a
/// container's, a Slurm job's), and what ulimit -v and -d leave. File pages that the kernel can drop count as free.
/// Swap does not count. `root` is a prefix for /proc and /sys, for tests. What cannot be read is not a limit.
MemoryBudget memory_budget(const std::string& root = "");

/// The same without ulimit, whose limits are each process's own: what the processes of this host have together.
MemoryBudget host_memory_budget(const std::string& root = "");

/// Resident memory of a process, in bytes.
struct ResidentMemory {
  int64_t held = 0;   ///< what it has written; the kernel cannot drop it
  int64_t files = 0;  ///< pages of files, such as libraries
  int64_t most = 0;   ///< of both together, the most there were
};
/// Of a process by its number, or "self". All are 0 once it is gone.
ResidentMemory resident_memory(const std::string& process, const std::string& root = "");

/// Something that grows with its input: a decompressed file, a table, a cache. It asks before it grows, so that an
/// error is reported instead of the kernel killing the process without a word. Small steps are free: the system is
/// asked once per 16 MiB. Any number of threads may use it.
class MemoryDraw {
 public:
  /// `what` begins the sentence ("decompressing a.tfrecord.gz"), `advice` ends it ("decompress it once with gunzip").
  MemoryDraw(std::string what, std::string advice, std::string root = "");

  /// `bytes` more are about to be allocated. Throws Error with exit code 71 if the budget and, on a host that swaps,
  /// the swap do not have that much, with 64 MiB to spare for everything else.
  void take(int64_t bytes);
  /// The same for what can do without: false if there is not that much, not counting swap.
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
