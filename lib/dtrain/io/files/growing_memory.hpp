#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace dtrain {

/// Memory of its own mapping. It grows without being copied, so that never more than its bytes are used, and goes back
/// to the system completely. What was not written yet reads as zero and takes no page.
class GrowingMemory {
 public:
  GrowingMemory() = default;
  ~GrowingMemory();
  GrowingMemory(GrowingMemory&& other) noexcept;
  GrowingMemory& operator=(GrowingMemory&& other) noexcept;
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;

  int64_t size() const { return size_; }
  std::span<std::byte> bytes() { return {first_, static_cast<size_t>(size_)}; }
  std::span<const std::byte> bytes() const { return {first_, static_cast<size_t>(size_)}; }

  /// Larger or smaller, >= 0. The bytes may move. Throws std::bad_alloc, and is then unchanged.
  void resize(int64_t bytes);

 private:
  std::byte* first_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace dtrain
