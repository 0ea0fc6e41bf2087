#pragma once
#include <c10/core/Device.h>

#include <cstdint>

#include "dtrain/dist/communicator.hpp"

namespace dtrain {

/// How often LibTorch has found no memory on that GPU, in this process, when it had given back what it had cached too.
/// 0 on a CPU.
int64_t memory_shortages(c10::Device place);

/// Where equal bits are promised on GPUs: an algorithm of cuDNN whose workspace does not fit is passed over without a
/// word for one that may add in another order, so that a run short of memory may differ from the same run with more.
/// All ranks together, each with its own count of shortages. Throws Error with kOutOfMemory on all ranks if any has
/// one, with how to leave room.
void require_ample_memory(Communicator& comm, int64_t shortages);
/// The same for the shortages of this rank's device; nothing on CPUs.
void require_ample_memory(Communicator& comm, c10::Device place);

}  // namespace dtrain
