#include "dtrain/watch/peer_link.hpp"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <map>

namespace dtrain {

struct PeerLink::Impl {
  MPI_Comm channel = MPI_COMM_NULL;
  struct Sending {
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<std::byte> bytes;
  };
  std::map<int, Sending> sending;

  static bool done(Sending& last) {
    int there = 1;
    if (last.request != MPI_REQUEST_NULL && MPI_Test(&last.request, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS)
      there = 0;
    return there != 0;
  }
};

PeerLink::PeerLink(void* channel) : impl_(std::make_unique<Impl>()) {
  impl_->channel = *static_cast<MPI_Comm*>(channel);
}

PeerLink::~PeerLink() {
  for (auto& [rank, last] : impl_->sending)
    if (!Impl::done(last)) {
      // Leaked on purpose: MPI still reads the bytes, and nobody waits until it is done. If there is no memory even for
      // this, the process may as well end.
      new std::vector<std::byte>(std::move(last.bytes));  // NOLINT(bugprone-unhandled-exception-at-new)
      MPI_Request_free(&last.request);
    }
}

void PeerLink::send(int rank, const std::vector<std::byte>& message) {
  Impl::Sending& last = impl_->sending[rank];
  if (!Impl::done(last)) return;
  last.bytes = message;
  MPI_Isend(last.bytes.data(), static_cast<int>(last.bytes.size()), MPI_BYTE, rank, 0, impl_->channel, &last.request);
}

std::optional<std::vector<std::byte>> PeerLink::receive() {
  int there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  if (MPI_Improbe(MPI_ANY_SOURCE, 0, impl_->channel, &there, &message, &status) != MPI_SUCCESS || there == 0)
    return std::nullopt;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  std::vector<std::byte> taken(static_cast<size_t>(bytes));
  MPI_Mrecv(taken.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  return taken;
}

}  // namespace dtrain
