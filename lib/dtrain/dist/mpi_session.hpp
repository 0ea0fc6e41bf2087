#pragma once
#include <memory>
#include <string>

#include "dtrain/dist/communicator.hpp"
#include "dtrain/dist/options.hpp"
#include "dtrain/watch/peer_link.hpp"

namespace dtrain {

/// MPI from start to end. One per process, made in main and passed on; never a global.
///
/// A session that ends well is finalize()d. One that fails is abort()ed: a failing rank that calls MPI_Finalize makes
/// the others hang. The destructor does neither.
class MpiSession {
 public:
  /// MPI_Init_thread with MPI_THREAD_MULTIPLE: the reducer talks on its own thread. Throws CommError if MPI offers
  /// less. With IntraHost::network Open MPI is told to use only TCP (ConfigError when OMPI_MCA_btl or OMPI_MCA_pml say
  /// otherwise), and share() gives every rank its own memory.
  explicit MpiSession(IntraHost intra_host = IntraHost::automatic);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// A communicator over all ranks of the job. Waits poll and yield instead of spinning forever: compute, loader and
  /// reducer threads share the cores a rank is bound to. Tensors that are not in host memory pass through it.
  std::unique_ptr<Communicator> world();

  /// This rank's number among those of its host (MPI_Comm_split_type).
  int local_rank() const;

  /// Small messages that are never waited for. All ranks call it together; the link must be destroyed before
  /// finalize().
  std::unique_ptr<PeerLink> peer_link();

  /// MPI has been started in this process, by a session that may be gone.
  static bool started();

  /// "Open MPI v4.1.4", or whatever the library calls itself.
  static std::string library_version();

  /// Tells the other ranks that this one has failed, and waits up to `seconds` for lower ones to say the same. Returns
  /// the lowest rank that has; returns at once on 0. For a rank that is about to abort(): throws nothing.
  int lowest_failed_rank(double seconds);

  /// All ranks together, after the last exchange and when nothing of share() is used any more.
  void finalize();
  /// Ends every rank of the job with `code`, without Open MPI 4's own messages about it: what this rank has printed
  /// stays last. Open MPI 5 adds its own.
  [[noreturn]] void abort(int code);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
