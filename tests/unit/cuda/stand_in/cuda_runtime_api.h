#pragma once
// What the kernels and their header need of CUDA's runtime, for kernels that run on the CPU.
#include <cmath>

enum cudaError_t { cudaSuccess = 0, cudaErrorLaunchOutOfResources = 701 };
struct CUstream_st;
using cudaStream_t = CUstream_st*;

using std::isfinite;  // nvcc has the names of <cmath> everywhere

inline cudaError_t launches_end_with = cudaSuccess;
inline cudaError_t cudaGetLastError() { return launches_end_with; }

#define __global__
#define __device__
#define __grid_constant__
// Memory of a block: one block runs at a time, and finds in this section what host_grid.cpp has left there.
#define __shared__ [[gnu::section("dtrain_shared")]] static
