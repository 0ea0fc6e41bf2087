#include "graph_memory.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <new>
#include <stdexcept>

namespace dtrain::test {

namespace {

constexpr size_t kBytes = size_t{256} << 20;  // pages are taken as they are touched
constexpr size_t kAlign = 64;

/// Where the calling thread's tensors are allocated; 0 outside run().
struct Room {
  std::byte* begin = nullptr;
  size_t used = 0;
};
thread_local Room room;

std::byte* all_memory() {
  static std::byte* const memory = [] {
    void* const made = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(made);
  }();
  return memory;
}

/// LibTorch's own allocator, except for a thread that runs a graph. What such a thread frees is not reused in the same
/// run.
class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (room.begin == nullptr) {
      void* const usual = usual_->raw_allocate(bytes);
      return {usual, usual, &Allocator::free, c10::Device(c10::kCPU)};
    }
    std::byte* const at = room.begin + room.used;
    room.used += (std::max<size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
    if (room.used > kBytes) throw std::bad_alloc();
    return {at, at, &Allocator::free, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Allocator::free; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  static void install() {
    static Allocator* const allocator = new Allocator;  // never destroyed: used until the process has ended
    if (usual_ != nullptr) return;
    usual_ = c10::GetCPUAllocator();
    c10::SetCPUAllocator(allocator, 255);
  }

 private:
  // One thread's memory, from a graph or not, may be freed by another.
  static void free(void* memory) {
    const std::less<> before;
    if (before(memory, all_memory()) || !before(memory, all_memory() + kBytes)) usual_->raw_deallocate(memory);
  }

  static inline c10::Allocator* usual_ = nullptr;
};

std::atomic<bool> in_use = false;

}  // namespace

GraphMemory::GraphMemory() : memory_(all_memory()) {
  if (in_use.exchange(true)) throw std::logic_error("there is one memory of graphs at a time");
  Allocator::install();
}

GraphMemory::~GraphMemory() {
  ::madvise(memory_, kBytes, MADV_DONTNEED);
  in_use = false;
}

void GraphMemory::run(const void* graph, const std::function<void()>& work) {
  if (ran_last_ != graph) std::memset(memory_, 0xFF, most_used_);
  ran_last_ = graph;
  room = {memory_, 0};
  try {
    work();
  } catch (...) {
    room = {};
    throw;
  }
  most_used_ = std::max(most_used_, room.used);
  room = {};
}

}  // namespace dtrain::test
