// The memory of a GPU's graphs, played on the CPU.
#pragma once
#include <cstddef>
#include <functional>

namespace dtrain::test {

/// One memory for all graphs. Whatever tensors a graph's work makes on the calling thread lie in it, at the same places
/// each time; before another graph runs all of it is filled with ones (NaN, -1). A GPU's graphs overwrite only what
/// happens to lie where they work. One at a time in a process; no tensor of it may outlive it.
class GraphMemory {
 public:
  /// The first one puts an allocator before LibTorch's own, for the life of the process.
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
