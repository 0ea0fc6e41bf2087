#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace dtrain {

/// Small messages between the ranks of a job that are never waited for: what the network does not take is dropped.
/// A separate channel, for one thread. Made by MpiSession::peer_link().
class PeerLink {
 public:
  /// `channel`: an MPI_Comm of the session that outlives the link.
  explicit PeerLink(void* channel);
  ~PeerLink();  ///< before MPI ends; messages still on their way are left to it
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  /// Dropped while the last message to that rank is still on its way: a rank that receives none fills no memory.
  void send(int rank, const std::vector<std::byte>& message);
  /// The next message that has come.
  std::optional<std::vector<std::byte>> receive();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
