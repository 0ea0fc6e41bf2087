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

/// ompi.HOST.UID, in which each mpirun of this user on this host has a folder pid.N, N its process id.
std::string sessions_folder(const LeftoverPlaces& places);

/// Keeps sessions_folder() on this host while it lives, by a folder pid.N in it, N this process. An Open MPI 4 that
/// ends as the last removes the common folder, and one that makes its own in it at that moment fails to start, with
/// code 1 (open-mpi/ompi#8510). For what starts several mpirun. Never throws: where no folder can be made there, mpirun
/// says so. One that was killed is found by open_mpi_leftovers().
class SessionsHold {
 public:
  explicit SessionsHold(const LeftoverPlaces& places);
  ~SessionsHold();
  SessionsHold(const SessionsHold&) = delete;
  SessionsHold& operator=(const SessionsHold&) = delete;

 private:
  std::string sessions_;
  std::string own_;
};

/// What Open MPI 4 has left on this host of jobs of this user, by name: folders ompi.HOST.UID/pid.N whose process N
/// does not exist, and files vader_segment.HOST.UID.*, none of which any process of this user has mapped or open. Links
/// and what belongs to others are skipped. Changes nothing.
std::vector<Leftover> open_mpi_leftovers(const LeftoverPlaces& places);

}  // namespace dtrain
