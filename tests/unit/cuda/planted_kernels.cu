#include "dtrain/cuda/launch.cuh"
#include "unit/cuda/planted_kernels.hpp"

namespace dtrain::test {

static constexpr int kThreads = 256;

static __global__ void sum_kernel(Fault fault, const double* values, double* sum) {
  __shared__ double parts[kThreads];
  if (fault != Fault::word_not_set || threadIdx.x != 100) parts[threadIdx.x] = values[threadIdx.x];
  if (fault != Fault::no_barrier_after_writing) __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    const unsigned other = threadIdx.x + half - (fault == Fault::index_off_by_one ? 1 : 0);
    if (threadIdx.x < half) parts[threadIdx.x] += parts[other];
    if (fault == Fault::barrier_of_some_threads && threadIdx.x >= half) return;
    if (fault != Fault::no_barrier_between_levels) __syncthreads();
  }
  if (threadIdx.x == 0) *sum = parts[0];
}

void planted_sum(Fault fault, const double* values, double* sum) {
  kernels::launch(sum_kernel, 1, kThreads, nullptr, fault, values, sum);
}

}  // namespace dtrain::test
