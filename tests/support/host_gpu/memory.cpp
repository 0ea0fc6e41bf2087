// The memory of the host's GPU, and the operators of LibTorch on it.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "support/host_gpu/streams.hpp"

namespace dtrain::test {
namespace {

constexpr int kNanBytes = 0xFF;  // as floats and doubles NaN

struct Block {
  void* data;
  size_t bytes;
  c10::StreamId stream;
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

FreeMemory& free_memory() {
  static auto* memory = new FreeMemory;
  return *memory;
}

// Runs on each stream that used the block; the last one to arrive frees it.
void free_when_reached(void* context) {
  auto* block = static_cast<Block*>(context);
  std::vector<c10::StreamId> lent;
  {
    const std::lock_guard lock(block->mutex);
    lent = block->lent;
  }
  auto left = std::make_shared<std::atomic<size_t>>(1 + lent.size());
  const auto arrive = [block, left] {
    if (--*left > 0) return;
    free_memory().give_back(block->data, block->bytes);
    delete block;
  };
  HostGpuStreams::all().stream(block->stream).push(arrive);
  for (const c10::StreamId number : lent) HostGpuStreams::all().stream(number).push(arrive);
}

class HostGpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto* block = new Block{free_memory().take(bytes), bytes, HostGpuStreams::all().current()};
    return {block->data, block, free_when_reached, c10::Device(kHostGpu, 0)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

// The same memory as a tensor of the CPU, by address alone: as a kernel sees it, it does not keep the memory.
struct Bare {
  explicit Bare(const at::Tensor& tensor)
      : data(const_cast<void*>(tensor.const_data_ptr())),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()),
        type(tensor.scalar_type()) {}
  at::Tensor on_host() const { return at::from_blob(data, sizes, strides, type); }

  void* data;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  at::ScalarType type;
};

at::Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), &host_gpu_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type.value_or(at::kFloat),
                                   format);
}

at::Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                           &host_gpu_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::kFloat));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  HostGpuStreams& streams = HostGpuStreams::all();
  const at::Tensor source = from.sizes() == to.sizes() ? from : from.expand(to.sizes());
  if (to.is_cpu()) {  // the host waits for what it wants to read
    streams.issue([out = Bare(to), in = Bare(source)] { out.on_host().copy_(in.on_host()); });
    streams.wait(streams.current());
  } else if (source.is_cpu()) {  // the host's memory may change at once
    streams.issue([out = Bare(to), in = source.clone()] { out.on_host().copy_(in); });
  } else {
    streams.issue([out = Bare(to), in = Bare(source)] { out.on_host().copy_(in.on_host()); });
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  TORCH_CHECK(from.sizes() == to.sizes(), "the host's GPU resizes nothing");
  return copy_from(from, to, false);
}

at::Tensor& fill(at::Tensor& tensor, const at::Scalar& value) {
  HostGpuStreams::all().issue([out = Bare(tensor), value] { out.on_host().fill_(value); });
  return tensor;
}

at::Tensor& zero(at::Tensor& tensor) { return fill(tensor, 0); }

at::Tensor view(const at::Tensor& tensor, c10::SymIntArrayRef sizes) {
  return at::native::view(tensor, C10_AS_INTARRAYREF_SLOW(sizes));
}

at::Tensor as_strided(const at::Tensor& tensor, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                      std::optional<c10::SymInt> offset) {
  std::optional<int64_t> begin;
  if (offset) begin = offset->expect_int();
  return at::native::as_strided_tensorimpl(tensor, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                           begin);
}

at::Tensor reshape_alias(const at::Tensor& tensor, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  return at::native::_reshape_alias(tensor, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides));
}

void record_stream(at::Tensor& tensor, at::Stream stream) {
  lend_host_gpu_memory(tensor.storage().data_ptr(), stream.id());
}

void by_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

}  // namespace

c10::Allocator& host_gpu_allocator() {
  static auto* allocator = new HostGpuAllocator;
  return *allocator;
}

void lend_host_gpu_memory(const c10::DataPtr& data, c10::StreamId number) {
  auto* block = static_cast<Block*>(data.get_context());
  const std::lock_guard lock(block->mutex);
  if (number != block->stream) block->lent.push_back(number);
}

void register_host_gpu_memory() {
  c10::SetAllocator(kHostGpu, &host_gpu_allocator());
  static auto* operators =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  operators->impl("empty.memory_format", TORCH_FN(empty));
  operators->impl("empty_strided", TORCH_FN(empty_strided));
  operators->impl("_copy_from", TORCH_FN(copy_from));
  operators->impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  operators->impl("fill_.Scalar", TORCH_FN(fill));
  operators->impl("zero_", TORCH_FN(zero));
  operators->impl("view", TORCH_FN(view));
  operators->impl("as_strided", TORCH_FN(as_strided));
  operators->impl("_reshape_alias", TORCH_FN(reshape_alias));
  operators->impl("record_stream", TORCH_FN(record_stream));
  static auto* all_others =
      new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  all_others->fallback(torch::CppFunction::makeFromBoxedFunction<&by_cpu>());
}

}  // namespace dtrain::test
