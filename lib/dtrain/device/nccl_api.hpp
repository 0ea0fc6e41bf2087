#pragma once
#include <c10/core/DeviceType.h>

#include <array>
#include <cstddef>
#include <string>

namespace dtrain {

/// NCCL's results, by its numbers (ncclResult_t).
enum class NcclResult {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

/// The calls of NCCL that dtrain makes, one to one and nothing else: the logic is in dist/nccl_communicator.cpp, which
/// tests run over a recording stand-in. Communicators are non-blocking: a call may return in_progress, and
/// async_error() then says when it has completed. Work goes to the calling thread's current CUDA stream. No call
/// throws.
class NcclApi {
 public:
  using Handle = void*;  ///< ncclComm_t
  struct Id {
    std::array<char, 128> bytes{};  ///< ncclUniqueId
  };

  virtual ~NcclApi() = default;

  /// Memory that sends, receives and sums may use: NCCL does not check it before reading.
  virtual c10::DeviceType memory() const = 0;

  virtual NcclResult get_unique_id(Id& id) = 0;
  /// ncclCommInitRankConfig with blocking = 0.
  virtual NcclResult init_rank(Handle& comm, int ranks, const Id& id, int rank) = 0;
  virtual NcclResult async_error(Handle comm, NcclResult& state) = 0;
  virtual NcclResult group_start() = 0;
  virtual NcclResult group_end() = 0;
  virtual NcclResult send(const void* data, size_t bytes, int peer, Handle comm) = 0;
  virtual NcclResult receive(void* data, size_t bytes, int peer, Handle comm) = 0;
  /// In place, float32, sum.
  virtual NcclResult all_reduce(float* data, size_t numel, Handle comm) = 0;
  /// In place: `all` has room for `bytes` from each rank, and this rank's are at rank × bytes.
  virtual NcclResult all_gather(void* all, size_t bytes, int rank, Handle comm) = 0;
  virtual NcclResult finalize(Handle comm) = 0;
  virtual NcclResult destroy(Handle comm) = 0;
  virtual NcclResult abort(Handle comm) = 0;
  /// NCCL's message about the last failure; `comm` may be null.
  virtual std::string last_error(Handle comm) = 0;
  /// "2.28.9"
  virtual std::string version() = 0;
};

}  // namespace dtrain
