#include "dtrain/base/block_arena.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace dtrain {
namespace {

constexpr int64_t kLargePage = int64_t{2} << 20;

int64_t rounded_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

bool addresses_are_limited() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

BlockArena::BlockArena() {
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0 || addresses_are_limited()) return;
  const auto size = static_cast<size_t>(rounded_up(pages * page, kLargePage));
  void* mapped = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return;
  begin_ = static_cast<std::byte*>(mapped);
  reserved_ = size;
  ::madvise(begin_, reserved_, MADV_HUGEPAGE);  // a hint: without it pages are small
}

BlockArena::~BlockArena() {
  if (begin_ != nullptr) ::munmap(begin_, reserved_);
}

void* BlockArena::take(size_t bytes) {
  if (bytes > reserved_) return nullptr;
  const std::lock_guard lock(mutex_);
  const int64_t offset = map_.take(static_cast<int64_t>(bytes));
  if (map_.end() > usable_ && !grow(map_.end())) {
    map_.give_back(offset);
    return nullptr;
  }
  return begin_ + offset;
}

bool BlockArena::grow(int64_t bytes) {
  const int64_t wanted = rounded_up(bytes, kLargePage);
  if (wanted > static_cast<int64_t>(reserved_)) return false;
  if (::mprotect(begin_ + usable_, static_cast<size_t>(wanted - usable_), PROT_READ | PROT_WRITE) != 0) return false;
  usable_ = wanted;
  return true;
}

void BlockArena::give_back(void* block) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    map_.give_back(static_cast<std::byte*>(block) - begin_);
  } catch (const std::bad_alloc&) {  // while a process that ran out of memory ends
  }
}

void BlockArena::trim() {
  const std::lock_guard lock(mutex_);
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  const auto drop = [&](int64_t from, int64_t to) {
    from = rounded_up(from, page);
    to = to / page * page;
    if (to > from) ::madvise(begin_ + from, static_cast<size_t>(to - from), MADV_DONTNEED);
  };
  for (const auto& [offset, bytes] : map_.gaps()) drop(offset, offset + bytes);
  drop(map_.end(), usable_);
}

}  // namespace dtrain
