#pragma once
#include <c10/core/DeviceType.h>

#include <memory>

#include "dtrain/device/nccl_api.hpp"

struct CUstream_st;

namespace dtrain {

/// NCCL, whichever libnccl.so.2 this process has loaded. `memory`: where the tensors are that it is given.
/// `current_stream`: the calling thread's current stream (a cudaStream_t), which work goes to. The module gives CUDA's;
/// tests give host memory and streams of their own, and load an NCCL of their own.
std::unique_ptr<NcclApi> make_real_nccl(c10::DeviceType memory, CUstream_st* (*current_stream)());

}  // namespace dtrain
