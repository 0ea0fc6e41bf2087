#include "dtrain/io/files/growing_memory.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace dtrain {

GrowingMemory::~GrowingMemory() {
  if (first_ != nullptr) munmap(first_, static_cast<size_t>(size_));
}

GrowingMemory::GrowingMemory(GrowingMemory&& other) noexcept
    : first_(std::exchange(other.first_, nullptr)), size_(std::exchange(other.size_, 0)) {}

GrowingMemory& GrowingMemory::operator=(GrowingMemory&& other) noexcept {
  std::swap(first_, other.first_);
  std::swap(size_, other.size_);
  return *this;
}

void GrowingMemory::resize(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  if (bytes == size_) return;
  if (bytes == 0) {
    munmap(first_, static_cast<size_t>(size_));
    first_ = nullptr;
  } else {
    void* const now = first_ == nullptr
                          ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                          : mremap(first_, static_cast<size_t>(size_), size, MREMAP_MAYMOVE);
    if (now == MAP_FAILED) throw std::bad_alloc();
    first_ = static_cast<std::byte*>(now);
  }
  size_ = bytes;
}

}  // namespace dtrain
