#pragma once
#include <optional>
#include <string>
#include <vector>

namespace dtrain {

/// What the environment tells of the launcher, before MPI has started. Used for messages that come before MPI_Init and
/// to decide whether to start it; ranks are taken from MPI itself afterwards.
struct Launch {
  bool launched = false;           ///< a launcher (mpirun, srun) started this process
  bool by_mpirun = false;          ///< Open MPI's
  int rank = 0;                    ///< OMPI_COMM_WORLD_RANK, else PMIX_RANK, else PMI_RANK; 0 without a launcher
  int size = 1;                    ///< number of processes, where the launcher tells it
  std::optional<int> slurm_tasks;  ///< SLURM_NTASKS of the job around
};
Launch read_launch();

/// Numbers of the cores this process may run on.
std::vector<int> bound_cores();

/// "0-3,8": core numbers as ranges.
std::string core_ranges(const std::vector<int>& cores);
/// The way back: the numbers in such a text, ascending.
std::vector<int> read_core_ranges(const std::string& text);

/// This machine's host name.
std::string host_name();

}  // namespace dtrain
