#include "job/kept_memory.hpp"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "dtrain/device/tensor_memory.hpp"

namespace dtrain {

void lay_out_heap() {
  constexpr int kRoom = 64 << 20;
  constexpr int kDefaultStep = 128 << 10;
  constexpr uintptr_t kLargePage = uintptr_t{2} << 20;
  const auto end_of_heap = [] { return static_cast<std::byte*>(::sbrk(0)); };
  std::byte* begin = end_of_heap();
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, kRoom);
  void* volatile block = std::malloc(1);  // volatile: a compiler may leave out what nobody looks at
  std::free(block);
  mallopt(M_TOP_PAD, kDefaultStep);
  begin += -reinterpret_cast<uintptr_t>(begin) % kLargePage;  // the first large page that lies in it as a whole
  if (std::byte* end = end_of_heap(); end > begin)
    ::madvise(begin, static_cast<size_t>(end - begin), MADV_HUGEPAGE);  // a hint
}

void keep_freed_memory() {
  constexpr int kGigabyte = 1 << 30;
  constexpr int kMostElsewhere = 32 << 20;  // the most that older C libraries accept
  if (mallopt(M_MMAP_THRESHOLD, kGigabyte) == 0) mallopt(M_MMAP_THRESHOLD, kMostElsewhere);
  keep_tensor_memory();
}

}  // namespace dtrain
