#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace dtrain {

/// What the environment says about the launcher, before MPI has started. Used for messages that come before MPI_Init
/// and to decide whether to start it; ranks are taken from MPI itself afterwards.
struct Launch {
  bool launched = false;   ///< a launcher (mpirun, srun) started this process and offers to connect it to its peers
  int rank = 0;            ///< OMPI_COMM_WORLD_RANK, else PMIX_RANK, else PMI_RANK; of a lone task SLURM_PROCID; else 0
  int size = 1;            ///< number of processes, if the launcher gives it
  bool by_mpirun = false;  ///< Open MPI's mpirun started this process
  bool by_srun = false;    ///< srun itself started this process, not a launcher inside the job
  bool lone_task = false;  ///< one of several tasks of srun, which offers no PMI: each would be rank 0 of 1
  bool old_pmi = false;    ///< of several tasks of srun, which offers PMI-1 or PMI-2: most builds of Open MPI lack both
  std::optional<int> slurm_tasks;          ///< SLURM_NTASKS of the job around
  std::optional<int> slurm_cpus_per_task;  ///< SLURM_CPUS_PER_TASK: processors that each task was to get
};
Launch read_launch();

/// The warning about rank `rank`, bound to `cores` cores, with what to do about it; "" if it has the `wanted` cores.
std::string binding_warning(const Launch& launch, const std::string& rank, int64_t cores, int64_t wanted);

}  // namespace dtrain
