#pragma once
#include <cstdint>
#include <memory>

#include "dtrain/device/device.hpp"

struct CUstream_st;

namespace dtrain::test {

/// A GPU whose memory is the host's and whose streams are threads, as LibTorch's device type PrivateUse1: for the order
/// of work, not for speed. One for each process, made before the first backward pass, with which LibTorch's engine
/// counts its devices.
///
/// - Work (FlatMath, copies, fills, results of operators, the tests' NCCL) runs on the thread of the stream that was
///   current when it was issued, after a pause (WorkerStream). Events order streams; nothing else does.
/// - Operators of LibTorch other than copies and fills are computed by the CPU, with its bits, once the current stream,
///   and no other, has come so far; their results come late, as all work.
/// - Memory holds NaN when it is allocated, and again as soon as the streams that it was made on or lent to have
///   reached the place where it was freed: what a stream reads too early or too late does not go unnoticed.
/// - Copies between pinned memory of the host and the device read and write it when their stream comes to them.
/// - WorkOrder (order.hpp) notes whatever two streams do to the same memory without an order between them, whether or
///   not a pause happened to bring it to light.
/// `nccl`: the module's, for those who ask it for one.
Device make_host_gpu(uint64_t seed, int64_t most_pause_us, std::unique_ptr<NcclApi> nccl = nullptr);

/// The calling thread's current stream, as NCCL takes it.
CUstream_st* host_gpu_stream();
/// The stream that every thread begins with.
CUstream_st* host_gpu_default_stream();

/// `real`, made for the current stream or for the default one: tells WorkOrder what its calls read and write.
std::unique_ptr<NcclApi> ordered_nccl(std::unique_ptr<NcclApi> real, bool on_default_stream = false);

}  // namespace dtrain::test
