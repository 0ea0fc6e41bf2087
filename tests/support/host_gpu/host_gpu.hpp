#pragma once
#include <cstdint>

#include "dtrain/device/device.hpp"

struct CUstream_st;

namespace dtrain::test {

/// A GPU whose memory is the host's and whose streams are threads, as LibTorch's device type PrivateUse1: for the order
/// of work, not for speed. One for each process.
///
/// - Work (FlatMath, copies, fills, the tests' NCCL) runs on the thread of the stream that was current when it was
///   issued, after a pause (WorkerStream). Events order streams; nothing else does.
/// - All other operators of LibTorch are computed by the CPU: they wait for the current stream, and no other.
/// - Memory holds NaN when it is allocated, and again as soon as the streams that it was made on or lent to have
/// reached
///   the place where it was freed: what a stream reads too early or too late does not go unnoticed.
Device make_host_gpu(uint64_t seed, int64_t most_pause_us);

/// The calling thread's current stream, as NCCL takes it.
CUstream_st* host_gpu_stream();
/// The stream that every thread begins with.
CUstream_st* host_gpu_default_stream();

}  // namespace dtrain::test
