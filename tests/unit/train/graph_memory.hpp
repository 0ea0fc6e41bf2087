// The memory of a GPU's graphs, imitated on the CPU.
#pragma once
#include <cstddef>
#include <functional>

namespace dtrain::test {

/// One memory for all graphs. All tensors that a graph's work makes on the calling thread are in it, at the same
/// addresses each time; before another graph runs, all of it is filled with one bits (NaN, -1). A GPU's graphs
/// overwrite only what they happen to use. Only one may exist in a process, and none of its tensors may outlive it.
class GraphMemory {
 public:
  /// The first one replaces LibTorch's allocator by one that uses it, until the process ends.
  GraphMemory();
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  /// Runs `work` as the graph `graph`.
  void run(const void* graph, const std::function<void()>& work);
  const void* ran_last() const { return ran_last_; }

 private:
  std::byte* memory_;
  size_t most_used_ = 0;
  const void* ran_last_ = nullptr;
};

}  // namespace dtrain::test
