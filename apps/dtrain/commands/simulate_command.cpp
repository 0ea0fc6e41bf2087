// dtrain simulate: predicted scaling of a measured job on a described machine. Nothing is trained.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands/cluster_file.hpp"
#include "commands/commands.hpp"
#include "commands/simulate_telling.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"

namespace dtrain {
namespace {

Measurement measured_for(const SimulateCommand& command) {
  std::vector<Measurement> all;
  for (const std::string& path : command.from) all.push_back(read_measurement(path));
  return joined(all);
}

std::vector<int64_t> ranks_of(const SimulateCommand& command) {
  std::vector<int64_t> ranks = command.ranks;
  if (ranks.empty())
    for (int64_t n = 1; n <= (command.logical_ranks > 0 ? std::min<int64_t>(64, command.logical_ranks) : 64); n *= 2)
      ranks.push_back(n);
  for (const int64_t n : ranks)
    if (command.logical_ranks > 0 && n > command.logical_ranks)
      throw UsageError("--ranks " + std::to_string(n) + " is more than --logical-ranks " +
                       std::to_string(command.logical_ranks) + ": each rank needs a logical rank to carry");
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace

int run_simulate(const SimulateCommand& command) {
  nlohmann::ordered_json json;
  if (!command.from.empty()) {
    const std::vector<int64_t> ranks = ranks_of(command);
    Simulation simulation;
    simulation.measured = measured_for(command);
    simulation.job.cluster = command.cluster.empty() ? one_machine(simulation.measured) : read_cluster(command.cluster);
    simulation.described = !command.cluster.empty();
    simulation.job.workload = simulation.measured.steps->workload;
    simulation.job.length = simulation.measured.length;
    simulation.job.logical_ranks = command.logical_ranks;
    tell_simulation(simulation, ranks, json);
  }
  if (command.validate) tell_published(json);
  tell_published_error(json);
  if (command.json) std::printf("%s\n", printable(json.dump()).c_str());
  return exit_code::kDone;
}

}  // namespace dtrain
