#include "dtrain/dist/launch.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "dtrain/base/text.hpp"

namespace dtrain {

static std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  int value = 0;
  if (text == nullptr) return std::nullopt;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  return error == std::errc() && end != text && value >= 0 ? std::optional(value) : std::nullopt;
}

Launch read_launch() {
  Launch launch;
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const auto rank = number_in(variable); rank && !launch.launched) {
      launch.launched = true;
      launch.rank = *rank;
    }
  // Inside a task of srun SLURM_STEP_NUM_TASKS is the number of tasks of the step; SLURM_NTASKS may be the job's.
  const auto step_tasks = number_in("SLURM_STEP_NUM_TASKS");
  const auto task = number_in("SLURM_PROCID");
  launch.by_mpirun = number_in("OMPI_COMM_WORLD_RANK").has_value();
  launch.by_srun = task && step_tasks && !launch.by_mpirun;
  const bool siblings = launch.by_srun && *step_tasks > 1;
  launch.lone_task = siblings && !launch.launched;
  launch.old_pmi = siblings && launch.launched && !number_in("PMIX_RANK");
  if (launch.lone_task) launch.rank = *task;
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"})
    if (const auto size = number_in(variable); size && (launch.launched || launch.lone_task) && launch.size == 1)
      launch.size = *size;
  launch.slurm_tasks = number_in("SLURM_NTASKS");
  launch.slurm_cpus_per_task = number_in("SLURM_CPUS_PER_TASK");
  return launch;
}

std::string binding_warning(const Launch& launch, const std::string& rank, int64_t cores, int64_t wanted) {
  const int64_t given = launch.slurm_cpus_per_task.value_or(0);
  if (!launch.launched || cores >= std::max(wanted, given)) return "";
  return rank + " is bound to " + count_of(cores, "core") +
         (given > cores ? ", although Slurm was asked for " + std::to_string(given) + " per task" : "") +
         ": training, loading and sums have to share them; " +
         (launch.by_srun ? "srun --cpus-per-task=" + std::to_string(std::max(wanted, given)) +
                               " gives more, --cpu-bind=none lets ranks use idle cores"
                         : "mpirun --bind-to none is faster");
}

}  // namespace dtrain
