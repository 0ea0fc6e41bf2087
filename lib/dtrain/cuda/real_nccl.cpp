#include "dtrain/cuda/real_nccl.hpp"

#include <nccl.h>

#include <cstring>

namespace dtrain {

static_assert(static_cast<int>(NcclResult::success) == ncclSuccess);
static_assert(static_cast<int>(NcclResult::unhandled_cuda_error) == ncclUnhandledCudaError);
static_assert(static_cast<int>(NcclResult::system_error) == ncclSystemError);
static_assert(static_cast<int>(NcclResult::internal_error) == ncclInternalError);
static_assert(static_cast<int>(NcclResult::invalid_argument) == ncclInvalidArgument);
static_assert(static_cast<int>(NcclResult::invalid_usage) == ncclInvalidUsage);
static_assert(static_cast<int>(NcclResult::remote_error) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::in_progress) == ncclInProgress);
static_assert(sizeof(NcclApi::Id) == sizeof(ncclUniqueId));

namespace {

NcclResult result(ncclResult_t code) { return static_cast<NcclResult>(code); }
ncclComm_t real(NcclApi::Handle comm) { return static_cast<ncclComm_t>(comm); }

class RealNccl final : public NcclApi {
 public:
  RealNccl(c10::DeviceType memory, cudaStream_t (*current_stream)()) : memory_(memory), stream_(current_stream) {}

  c10::DeviceType memory() const override { return memory_; }

  NcclResult get_unique_id(Id& id) override {
    ncclUniqueId made;
    const ncclResult_t code = ncclGetUniqueId(&made);
    std::memcpy(id.bytes.data(), &made, sizeof made);
    return result(code);
  }

  NcclResult init_rank(Handle& comm, int ranks, const Id& id, int rank) override {
    ncclUniqueId made;
    std::memcpy(&made, id.bytes.data(), sizeof made);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    // An older NCCL's own thread uses this place when the call has returned.
    static_assert(sizeof(ncclComm_t) == sizeof(Handle));
    return result(ncclCommInitRankConfig(reinterpret_cast<ncclComm_t*>(&comm), ranks, made, rank, &config));
  }

  NcclResult async_error(Handle comm, NcclResult& state) override {
    ncclResult_t now = ncclSuccess;
    const ncclResult_t code = ncclCommGetAsyncError(real(comm), &now);
    state = result(now);
    return result(code);
  }

  NcclResult group_start() override { return result(ncclGroupStart()); }
  NcclResult group_end() override { return result(ncclGroupEnd()); }

  NcclResult send(const void* data, size_t bytes, int peer, Handle comm) override {
    return result(ncclSend(data, bytes, ncclUint8, peer, real(comm), stream_()));
  }
  NcclResult receive(void* data, size_t bytes, int peer, Handle comm) override {
    return result(ncclRecv(data, bytes, ncclUint8, peer, real(comm), stream_()));
  }
  NcclResult all_reduce(float* data, size_t numel, Handle comm) override {
    return result(ncclAllReduce(data, data, numel, ncclFloat32, ncclSum, real(comm), stream_()));
  }
  NcclResult all_gather(void* all, size_t bytes, int rank, Handle comm) override {
    const char* own = static_cast<const char*>(all) + static_cast<size_t>(rank) * bytes;
    return result(ncclAllGather(own, all, bytes, ncclUint8, real(comm), stream_()));
  }

  NcclResult finalize(Handle comm) override { return result(ncclCommFinalize(real(comm))); }
  NcclResult destroy(Handle comm) override { return result(ncclCommDestroy(real(comm))); }
  NcclResult abort(Handle comm) override { return result(ncclCommAbort(real(comm))); }

  std::string last_error(Handle comm) override {
    const char* text = ncclGetLastError(real(comm));
    return text == nullptr ? "" : text;
  }

  std::string version() override {
    int number = 0;
    if (ncclGetVersion(&number) != ncclSuccess) return "unknown";
    return std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100) + "." +
           std::to_string(number % 100);
  }

 private:
  c10::DeviceType memory_;
  cudaStream_t (*stream_)();
};

}  // namespace

std::unique_ptr<NcclApi> make_real_nccl(c10::DeviceType memory, cudaStream_t (*current_stream)()) {
  return std::make_unique<RealNccl>(memory, current_stream);
}

}  // namespace dtrain
