#include "dtrain/device/tensor_memory.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>

#include "dtrain/base/block_arena.hpp"

namespace dtrain {
namespace {

// A line of memory before each tensor says whose block it is, since c10 hands nothing but an address to what frees it.
struct alignas(64) Before {
  BlockArena* arena;  // null: c10's own memory
};

constexpr size_t kLarge = size_t{64} << 10;

class TensorMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &give_back, device};
    Before* before = nullptr;
    if (bytes >= kLarge) before = static_cast<Before*>(arena_.take(bytes + sizeof(Before)));
    BlockArena* owner = before != nullptr ? &arena_ : nullptr;
    if (before == nullptr) before = static_cast<Before*>(c10::alloc_cpu(bytes + sizeof(Before)));  // throws
    before->arena = owner;
    void* data = before + 1;
    return {data, data, &give_back, device};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  void trim() { arena_.trim(); }
  bool works() const { return arena_.is_there(); }

 private:
  static void give_back(void* data) {
    if (data == nullptr) return;
    Before* before = static_cast<Before*>(data) - 1;
    if (before->arena != nullptr) {
      before->arena->give_back(before);
    } else {
      c10::free_cpu(before);
    }
  }

  BlockArena arena_;
};

}  // namespace

void keep_tensor_memory() {
  constexpr uint8_t kAboveDefault = 1;
  // Never deleted: tensors may be freed until the process is gone.
  c10::SetCPUAllocator(new TensorMemory, kAboveDefault);  // NOLINT(cppcoreguidelines-owning-memory): as said
}

static TensorMemory* tensor_memory() { return dynamic_cast<TensorMemory*>(c10::GetCPUAllocator()); }

bool tensors_have_gaps() {
  const TensorMemory* memory = tensor_memory();
  return memory == nullptr || !memory->works();
}

void give_back_tensor_memory() {
  if (TensorMemory* memory = tensor_memory()) memory->trim();
  ::malloc_trim(0);
}

}  // namespace dtrain
