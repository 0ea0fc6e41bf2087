// The memory of the host's GPU, and the host's memory that it copies from and to in the background.
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "support/host_gpu/graphs.hpp"
#include "support/host_gpu/streams.hpp"

namespace dtrain::test {
namespace {

constexpr int kNanBytes = 0xFF;  // as floats and doubles NaN

struct Block {
  void* data;
  size_t bytes;
  c10::StreamId stream;
  std::shared_ptr<GraphBlock> of_graph{};  // null: the memory is the tensor's alone
  std::mutex mutex{};
  std::vector<c10::StreamId> lent{};  // under mutex
};

// Memory that is free, by size. It never goes back to the host's heap, which work that comes too late would damage.
class FreeMemory {
 public:
  void* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& free = free_[bytes];
    if (free.empty()) return std::memset(std::malloc(bytes + 1), kNanBytes, bytes);
    void* data = free.back();
    free.pop_back();
    return data;
  }
  void give_back(void* data, size_t bytes) {
    std::memset(data, kNanBytes, bytes);
    const std::lock_guard lock(mutex_);
    free_[bytes].push_back(data);
  }

 private:
  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;
};

// What tensors hold, graphs' memory apart, and how much there is.
struct Held {
  std::atomic<size_t> now{0};
  std::atomic<size_t> peak{0};
  std::atomic<size_t> limit{SIZE_MAX};
  std::atomic<int64_t> refused{0};  // requests

  void take(size_t bytes) {
    const size_t all = now += bytes;
    if (all > limit) {
      now -= bytes;
      ++refused;
      TORCH_CHECK_WITH(OutOfMemoryError, false, "the host's GPU has no memory left for ", bytes, " bytes");
    }
    for (size_t seen = peak; seen < all && !peak.compare_exchange_weak(seen, all);) {
    }
  }
};

Held& held() {
  static auto* memory = new Held;
  return *memory;
}

FreeMemory& free_memory() {
  static auto* memory = new FreeMemory;
  return *memory;
}

// Runs on each stream that used the block; the last one to arrive frees it.
void free_when_reached(void* context) {
  auto* block = static_cast<Block*>(context);
  HostGpuStreams::all().require_sound();  // throws from destructors, as CUDA's events do there
  if (block->of_graph != nullptr) {
    delete block;
    return;
  }
  std::vector<c10::StreamId> lent;
  {
    const std::lock_guard lock(block->mutex);
    lent = block->lent;
  }
  WorkOrder::all().release(block->data, lent);
  auto left = std::make_shared<std::atomic<size_t>>(1 + lent.size());
  const auto arrive = [block, left] {
    if (--*left > 0) return;
    held().now -= block->bytes;
    free_memory().give_back(block->data, block->bytes);
    delete block;
  };
  HostGpuStreams::all().stream(block->stream).push(arrive);
  for (const c10::StreamId number : lent) HostGpuStreams::all().stream(number).push(arrive);
}

class HostGpuAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    HostGpuStreams& streams = HostGpuStreams::all();
    Block* block = nullptr;
    if (Recording* recording = streams.recording(streams.current())) {
      auto of_graph = recording->allocate(bytes, streams.current());
      block = new Block{of_graph->data, bytes, streams.current(), of_graph};
    } else {
      held().take(bytes);
      block = new Block{free_memory().take(bytes), bytes, streams.current()};
      WorkOrder::all().allocate(block->data, bytes, block->stream);
    }
    return {block->data, block, free_when_reached, c10::Device(kHostGpu, 0)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override { lend_host_gpu_memory(data, stream.id()); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.num_ooms = held().refused;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
};

// Pinned memory goes back into use once all copies that were issued on it are done, as LibTorch keeps it for CUDA.
class PinnedMemory {
 public:
  void* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::erase_if(freed_, [this](const Freed& freed) {
      if (!std::all_of(freed.until.begin(), freed.until.end(), [](const StreamMark& mark) { return mark.reached(); }))
        return false;
      memory_.give_back(freed.data, freed.bytes);
      return true;
    });
    void* data = memory_.take(bytes);
    in_use_[static_cast<const char*>(data)] = {bytes, {}};
    return data;
  }
  void give_back(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = in_use_.find(static_cast<const char*>(data));
    freed_.push_back({data, found->second.bytes, std::move(found->second.until)});
    in_use_.erase(found);
  }
  bool holds(const void* data) {
    const std::lock_guard lock(mutex_);
    return around(data) != nullptr;
  }
  void keep_until(const void* data, const StreamMark& mark) {
    const std::lock_guard lock(mutex_);
    if (InUse* memory = around(data)) memory->until.push_back(mark);
  }

 private:
  struct InUse {
    size_t bytes = 0;
    std::vector<StreamMark> until{};
  };
  struct Freed {
    void* data;
    size_t bytes;
    std::vector<StreamMark> until;
  };

  InUse* around(const void* data) {
    const auto* place = static_cast<const char*>(data);
    auto found = in_use_.upper_bound(place);
    if (found == in_use_.begin()) return nullptr;
    --found;
    return place < found->first + std::max<size_t>(found->second.bytes, 1) ? &found->second : nullptr;
  }

  std::mutex mutex_;  // guards all below
  FreeMemory memory_;
  std::map<const char*, InUse> in_use_;
  std::vector<Freed> freed_;
};

PinnedMemory& pinned_memory() {
  static auto* memory = new PinnedMemory;
  return *memory;
}

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = pinned_memory().take(bytes);
    return {data, data, [](void* freed) { pinned_memory().give_back(freed); }, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

GraphBlock::GraphBlock(size_t size, c10::StreamId stream) : data(free_memory().take(size)), bytes(size) {
  WorkOrder::all().allocate(data, bytes, stream);
}

// A graph leaves its memory only when all work is done.
GraphBlock::~GraphBlock() {
  const std::vector<c10::StreamId> streams = HostGpuStreams::all().catch_up_all();
  WorkOrder::all().release(data, streams);
  free_memory().give_back(data, bytes);
}

c10::Allocator& host_gpu_allocator() {
  static auto* allocator = new HostGpuAllocator;
  return *allocator;
}

c10::Allocator& pinned_allocator() {
  static auto* allocator = new PinnedAllocator;
  return *allocator;
}

void lend_host_gpu_memory(const c10::DataPtr& data, c10::StreamId number) {
  auto* block = static_cast<Block*>(data.get_context());
  const std::lock_guard lock(block->mutex);
  if (number != block->stream) block->lent.push_back(number);
}

bool is_pinned(const void* data) { return pinned_memory().holds(data); }
void keep_pinned_until(const void* data, const StreamMark& mark) { pinned_memory().keep_until(data, mark); }

void limit_host_gpu_memory(size_t bytes) { held().limit = bytes; }
size_t host_gpu_memory_peak() { return held().peak; }
size_t host_gpu_memory_free() { return held().limit - held().now; }

void register_host_gpu_memory() { c10::SetAllocator(kHostGpu, &host_gpu_allocator()); }

}  // namespace dtrain::test
