#include "dtrain/train/ample_memory.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <string>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/dist/collectives.hpp"

namespace dtrain {

int64_t memory_shortages(c10::Device place) {
  if (place.is_cpu()) return 0;
  const auto stats = c10::getDeviceAllocator(place.type())->getDeviceStats(place.index());
  return stats.num_ooms;  // one that succeeded when the cache was given back has left out nothing
}

void require_ample_memory(Communicator& comm, int64_t shortages) {
  const std::vector<at::Tensor> all = all_gather(comm, at::full({1}, shortages, at::kLong));
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (const auto count = all[rank].item<int64_t>(); count > 0)
      throw Error(exit_code::kOutOfMemory,
                  "the GPU of rank " + std::to_string(rank) + " was short of memory " + count_of(count, "time") +
                      ", and cuDNN may have chosen other algorithms for it, so the bits that deterministic: true "
                      "promises are in doubt, and nothing more is saved; leave room (data.loader.cache other than "
                      "device, cuda_graphs: false, more GPUs, no other program on this one) and resume, or start "
                      "again with a smaller batch.per_rank and more batch.accumulate, or deterministic: false");
}

void require_ample_memory(Communicator& comm, c10::Device place) {
  if (!place.is_cpu()) require_ample_memory(comm, memory_shortages(place));
}

}  // namespace dtrain
