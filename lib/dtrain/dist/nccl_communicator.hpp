#pragma once
#include <memory>

#include "dtrain/device/nccl_api.hpp"
#include "dtrain/dist/communicator.hpp"

namespace dtrain {

/// The ranks of `host` with NCCL between their GPUs: tensors are on the calling thread's current GPU, one GPU for each
/// rank, and work goes to that thread's current CUDA stream. All ranks call it together; the id travels over `host`.
///
/// The communicator is non-blocking, as NCCL recommends for ending a job whose peer is gone: every call is followed
/// until NCCL has completed it or `limit_s` seconds have passed, and require_healthy(), for a caller that waits for the
/// device, finds later failures and work that takes longer than that since the last call. A failure is final: the
/// destructor then aborts the communicator instead of finishing it, and the job ends. `ring`: all_reduce() uses a ring.
/// NCCL has no argument for it and reads the variable NCCL_ALGO whenever a communicator starts, so it is set to Ring
/// while this one does; if the user has set it, in the environment of rank 0 or in its nccl.conf, that choice is kept.
/// share() gives the hosts as `host` sees them: memory that ranks of one host could share there counts as one host.
///
/// `api` and `host` outlive it; `host` is used only by this call and duplicate(). Throws CommError.
std::unique_ptr<Communicator> make_nccl_communicator(NcclApi& api, Communicator& host, double limit_s,
                                                     bool ring = false);

}  // namespace dtrain
