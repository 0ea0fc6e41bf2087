// libnccl.so.2 for tests: NCCL's calls that dtrain makes, as nccl.h declares them, between processes of one machine and
// on host memory. It is as strict and as lazy as NCCL may be; comm.hpp says how it works, plan.hpp what can go wrong.
#include "support/nccl/stand_in.hpp"

#include <nccl.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <random>

#include "support/nccl/comm.hpp"

using dtrain::test::HostStream;
using dtrain::test::StandInComm;
using dtrain::test::StandInOp;
using dtrain::test::StandInWork;

struct ncclComm {
  std::shared_ptr<StandInComm> own;
};

namespace {

thread_local std::string last_words;

ncclResult_t named(StandInComm::Result result) { return static_cast<ncclResult_t>(result); }

ncclResult_t refuse(ncclResult_t result, const char* words) {
  last_words = words;
  return result;
}

// What a thread has called since ncclGroupStart.
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::map<ncclComm_t, StandInWork> work;
};
thread_local Group group;

ncclResult_t end_group() {
  ncclResult_t result = std::exchange(group.error, ncclSuccess);
  const auto all = std::exchange(group.work, {});
  if (result != ncclSuccess) return result;
  for (const auto& [comm, work] : all) {
    const ncclResult_t one = named(comm->own->issue(work));
    if (one != ncclSuccess) result = one;
  }
  return result;
}

ncclResult_t judge(const StandInOp& op, ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "no communicator");
  if (stream == nullptr) return refuse(ncclUnhandledCudaError, "no stream");
  if (op.bytes > 0 && (op.from == nullptr || op.to == nullptr)) return refuse(ncclInvalidArgument, "no buffer");
  if (op.peer < 0 || op.peer >= comm->own->ranks()) return refuse(ncclInvalidArgument, "no such rank");
  if (const ncclResult_t busy = named(comm->own->ready(true)); busy != ncclSuccess)
    return refuse(busy, "the communicator is used before its last call has been carried out, or after it failed");
  StandInWork& work = group.work[comm];
  if (work.stream != nullptr && work.stream != HostStream::behind(stream))
    return refuse(ncclInvalidUsage, "a group of two streams");
  work.stream = HostStream::behind(stream);
  work.ops.push_back(op);
  return ncclSuccess;
}

ncclResult_t enqueue(const StandInOp& op, ncclComm_t comm, cudaStream_t stream) {
  const ncclResult_t result = judge(op, comm, stream);
  if (result != ncclSuccess) group.error = result;
  return group.depth > 0 ? result : end_group();
}

size_t bytes_of(size_t count, ncclDataType_t type) { return type == ncclFloat32 ? count * 4 : count; }

bool known(ncclDataType_t type) { return type == ncclFloat32 || type == ncclUint8; }

std::string new_path() {
  std::random_device device;
  return (std::filesystem::temp_directory_path() /
          ("dtrain-nccl-" + std::to_string(::getpid()) + "-" + std::to_string(device())))
      .string();
}

}  // namespace

const char* dtrain_stand_in_nccl() { return "the tests' NCCL"; }

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::string path = new_path();
  if (path.size() >= sizeof id->internal) return refuse(ncclSystemError, "TMPDIR is too long");
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, path.data(), path.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  static std::atomic<int64_t> made{0};
  const ncclConfig_t wanted = NCCL_CONFIG_INITIALIZER;
  if (config == nullptr || config->size != wanted.size || config->magic != wanted.magic ||
      config->version != wanted.version)
    return refuse(ncclInvalidArgument, "a config that NCCL_CONFIG_INITIALIZER did not make");
  if (config->blocking != 0) return refuse(ncclInvalidArgument, "only non-blocking communicators");
  if (ranks < 1 || ranks > dtrain::test::Wire::kMostRanks || rank < 0 || rank >= ranks)
    return refuse(ncclInvalidArgument, "no such rank");
  try {
    *comm = new ncclComm{std::make_shared<StandInComm>(std::string(id.internal), ranks, rank, made++)};
  } catch (const std::exception& error) {
    return refuse(ncclSystemError, error.what());
  }
  return named((*comm)->own->start());
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "no communicator");
  *state = named(comm->own->state());
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  return --group.depth > 0 ? ncclSuccess : end_group();
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (!known(type)) return refuse(ncclInvalidArgument, "floats and bytes alone");
  return enqueue({StandInOp::send, data, const_cast<void*>(data), bytes_of(count, type), peer}, comm, stream);
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  if (!known(type)) return refuse(ncclInvalidArgument, "floats and bytes alone");
  return enqueue({StandInOp::receive, data, data, bytes_of(count, type), peer}, comm, stream);
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclFloat32 || op != ncclSum) return refuse(ncclInvalidArgument, "sums of floats alone");
  return enqueue({StandInOp::all_reduce, from, to, bytes_of(count, type), 0}, comm, stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  if (!known(type)) return refuse(ncclInvalidArgument, "floats and bytes alone");
  return enqueue({StandInOp::all_gather, from, to, bytes_of(count, type), 0}, comm, stream);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  if (const ncclResult_t busy = named(comm->own->ready(false)); busy != ncclSuccess)
    return refuse(busy, "finalized before its last call has been carried out, or after it failed");
  return named(comm->own->finalize());
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  comm->own->destroy();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  comm->own->abort();
  delete comm;
  return ncclSuccess;
}

const char* ncclGetLastError(ncclComm_t) { return last_words.c_str(); }
