#pragma once
// Stands in for lib/dtrain/cuda/launch.cuh: kernels run on the CPU, and are done when launch() returns.
#include <cuda_runtime_api.h>

#include "unit/cuda/host_grid.hpp"

#define gridDim (::dtrain::test::place_in_grid().grid)
#define blockDim (::dtrain::test::place_in_grid().block)
#define blockIdx (::dtrain::test::place_in_grid().block_index)
#define threadIdx (::dtrain::test::place_in_grid().thread_index)

inline void __syncthreads() { ::dtrain::test::wait_for_block(); }

namespace dtrain::kernels {

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), int blocks, int threads, cudaStream_t, const Arguments&... arguments) {
  test::run_grid(blocks, threads, [&] { kernel(arguments...); });
}

}  // namespace dtrain::kernels
