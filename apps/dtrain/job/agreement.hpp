#pragma once
#include <string>
#include <vector>

#include "job/job.hpp"
#include "job/plan.hpp"
#include "line/command_line.hpp"

namespace dtrain {

/// Something that must be the same on all ranks.
struct Fact {
  std::string name;   ///< "optimizer.learning_rate", "--resume", "build"
  std::string value;  ///< compared in full, shown shortened
  std::string rule;   ///< what all ranks must do, as in "see the same files"
};

/// A command of all ranks and its options, except those that may differ between ranks.
std::vector<Fact> facts_of_command(const TrainCommand& command, const Config& config);
std::vector<Fact> facts_of_command(const EvalCommand& command, const Config& config);
std::vector<Fact> facts_of_command(const PredictCommand& command, const Config& config);
std::vector<Fact> facts_of_command(const PackCommand& command, const Config& config);
std::vector<Fact> facts_of_command(const BenchStepCommand& command, const Config& config);
std::vector<Fact> facts_of_command(const BenchInputCommand& command, const Config& config);
std::vector<Fact> facts_of_command(const BenchCommCommand& command, const Config& config);

/// What can be compared before anything depends on it: `command` with its options, every key of the configuration that
/// must not differ between ranks, the build, and the processor's vector code, on which bits depend.
std::vector<Fact> facts_of_start(std::vector<Fact> command, const Config& config, const Job& job);

/// What depends on the files: data, split, the network's tensors, and the file of model.weights. `weights_sha256`: of
/// that file, "" if there is none.
std::vector<Fact> facts_of_plan(const Plan& plan, const Network& network, const std::string& weights_sha256);

/// All ranks together, one exchange. Throws ConfigError on every rank, naming the first rank that differs from rank 0,
/// its host, and what differs with both values.
void require_agreement(Job& job, const std::vector<Fact>& facts);

}  // namespace dtrain
