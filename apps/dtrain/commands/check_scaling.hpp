#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commands/check_sections.hpp"

namespace dtrain {

/// How long the job will train on `processes` processes, in node hours too, and after how many more do not pay: from
/// measurements (`from`, as dtrain simulate takes them), else from the network's operations and the speed of matrix
/// products on a core here; what was assumed is told with it. `cluster`: a file, "" = one machine.
struct ScalingQuestion {
  int64_t processes = 1;
  std::vector<std::string> from;
  std::string cluster;
};
void tell_scaling(const ScalingQuestion& question, const Experiment& experiment, const Plan& plan,
                  const Network& network, CheckJson& json);

}  // namespace dtrain
