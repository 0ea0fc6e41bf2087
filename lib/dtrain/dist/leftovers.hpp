#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain {

/// What an mpirun that was killed could not remove: a session folder, or a segment of shared memory.
struct Leftover {
  std::string path;
  int64_t bytes = 0;
};

/// Where Open MPI and the system keep these.
struct LeftoverPlaces {
  std::string temporary;  ///< holds ompi.HOST.UID; Open MPI takes TMPDIR, TEMP or TMP, else /tmp
  std::string shared = "/dev/shm";
  std::string processes = "/proc";
};
/// The places of this process.
LeftoverPlaces leftover_places();

/// What Open MPI 4 has left on this host of jobs of this user, by name: folders ompi.HOST.UID/pid.N whose process N
/// does not exist, and files vader_segment.HOST.UID.*, none of which any process of this user has mapped or open. Links
/// and what belongs to others are skipped. Changes nothing.
std::vector<Leftover> open_mpi_leftovers(const LeftoverPlaces& places);

}  // namespace dtrain
