#pragma once
#include <functional>

namespace dtrain::test {

// Blocks and threads of a GPU, on one thread of the CPU. Blocks run one after another in random order, the threads of a
// block as fibers, between two barriers in random order too. So a kernel that forgets a barrier reads what another
// thread has not written yet, and its result is wrong. Shared memory is filled with NaN (all bits set) before each
// block. Under ThreadSanitizer each thread of a block is a thread of its own, ordered against the others by barriers
// alone: a race within a block, or between blocks of a kernel without barriers, is reported whatever the order was. The
// order follows from the environment variable DTRAIN_SEED, or from a seed that is printed.

struct GridIndex {
  unsigned x = 0;
};

/// Where the running thread is.
struct PlaceInGrid {
  GridIndex grid;   ///< number of blocks
  GridIndex block;  ///< number of threads in each
  GridIndex block_index;
  GridIndex thread_index;
};
PlaceInGrid place_in_grid();

/// Runs `thread` once for each thread of each block. Throws InternalError if a barrier is not reached by all threads of
/// a block.
void run_grid(int blocks, int threads, const std::function<void()>& thread);

/// __syncthreads()
void wait_for_block();

}  // namespace dtrain::test
