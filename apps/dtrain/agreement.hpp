#pragma once
#include <string>
#include <vector>

#include "command_line.hpp"
#include "job.hpp"
#include "run.hpp"

namespace dtrain {

/// Something that must be the same on all ranks.
struct Fact {
  std::string name;   ///< "optimizer.learning_rate", "--resume", "build"
  std::string value;  ///< compared in full, shown shortened
  std::string rule;   ///< what all ranks must do, as in "see the same files"
};

/// What can be compared before anything depends on it: the command and its options, every key of the configuration that
/// ranks may not have for themselves, the build, and the processor's vector code, on which bits depend.
std::vector<Fact> facts_of_start(const CommandLine& line, const Config& config, const Job& job);

/// What only the files tell: data, split, the network's tensors, and the file of model.weights.
/// `weights_sha256`: of that file, "" where there is none.
std::vector<Fact> facts_of_plan(const Plan& plan, const Network& network, const std::string& weights_sha256);

/// All ranks together, one exchange. Throws ConfigError on every rank, naming the first rank that differs from rank 0,
/// its host, and what differs with both values.
void require_agreement(Job& job, const std::vector<Fact>& facts);

}  // namespace dtrain
