// What the environment of mpirun, srun and a batch script says about a process, with the values that Open MPI 4.1 and
// Slurm 22.05 set.
#include "dtrain/dist/launch.hpp"

#include <stdlib.h>

#include <map>

#include "support/catch.hpp"

using namespace dtrain;

namespace {

// The launch that a process with these variables of launchers, and no others, reads.
Launch launch_with(const std::map<std::string, std::string>& variables) {
  const std::vector<std::string> known = {
      "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",          "PMI_RANK", "PMI_SIZE", "SLURM_PROCID",
      "SLURM_NTASKS",         "SLURM_STEP_NUM_TASKS", "SLURM_CPUS_PER_TASK"};
  std::map<std::string, std::string> before;
  for (const std::string& name : known) {
    if (const char* text = getenv(name.c_str())) before[name] = text;
    unsetenv(name.c_str());
  }
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  const Launch launch = read_launch();
  for (const std::string& name : known) unsetenv(name.c_str());
  for (const auto& [name, value] : before) setenv(name.c_str(), value.c_str(), 1);
  return launch;
}

}  // namespace

TEST_CASE("without a launcher a process is alone") {
  const Launch launch = launch_with({});
  CHECK_FALSE(launch.launched);
  CHECK_FALSE(launch.lone_task);
  CHECK(launch.size == 1);
}

TEST_CASE("in a batch script of several tasks a process is alone, and knows of the tasks") {
  const Launch launch = launch_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
  CHECK_FALSE(launch.launched);
  CHECK_FALSE(launch.by_srun);
  CHECK_FALSE(launch.lone_task);
  CHECK(launch.slurm_tasks == 4);
}

TEST_CASE("under mpirun in a job Open MPI's variables count, not those of Slurm's step around its helper") {
  const Launch launch = launch_with({{"OMPI_COMM_WORLD_RANK", "5"},
                                     {"OMPI_COMM_WORLD_SIZE", "8"},
                                     {"PMIX_RANK", "5"},
                                     {"SLURM_PROCID", "1"},
                                     {"SLURM_NTASKS", "2"},
                                     {"SLURM_STEP_NUM_TASKS", "2"}});
  CHECK(launch.launched);
  CHECK_FALSE(launch.by_srun);
  CHECK(launch.rank == 5);
  CHECK(launch.size == 8);
}

TEST_CASE("srun with PMIx launches; the step's tasks count, not the job's") {
  const Launch launch =
      launch_with({{"PMIX_RANK", "1"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  CHECK(launch.launched);
  CHECK(launch.by_srun);
  CHECK_FALSE(launch.lone_task);
  CHECK_FALSE(launch.old_pmi);
  CHECK(launch.rank == 1);
  CHECK(launch.size == 2);
}

TEST_CASE("tasks of srun without any PMI are lone, each with a number of its own; a single one is not") {
  const Launch launch = launch_with({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  CHECK_FALSE(launch.launched);
  CHECK(launch.lone_task);
  CHECK(launch.rank == 3);
  CHECK(launch.size == 4);
  CHECK_FALSE(launch_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}}).lone_task);
}

TEST_CASE("tasks of srun with PMI-2 are told apart from those with PMIx") {
  const Launch launch =
      launch_with({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  CHECK(launch.launched);
  CHECK(launch.old_pmi);
  CHECK_FALSE(launch_with({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).old_pmi);  // MPICH's mpiexec
}

TEST_CASE("a rank on fewer cores than it wants is named, with what frees it") {
  Launch launch;
  CHECK(binding_warning(launch, "rank 0 on a", 1, 2).empty());  // it is not bound
  launch.launched = true;
  CHECK(binding_warning(launch, "rank 0 on a", 2, 2).empty());
  const std::string plain = binding_warning(launch, "rank 0 on a", 1, 2);
  CHECK(plain.find("rank 0 on a is bound to 1 core: ") == 0);
  CHECK(plain.find("mpirun --bind-to none") != std::string::npos);
  launch.slurm_cpus_per_task = 8;
  CHECK(binding_warning(launch, "rank 0 on a", 2, 2).find("2 cores, although Slurm was asked for 8 per task") !=
        std::string::npos);
  launch.by_srun = true;
  CHECK(binding_warning(launch, "rank 0 on a", 1, 2).find("srun --cpus-per-task=8") != std::string::npos);
}
