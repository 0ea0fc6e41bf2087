#include <cstdio>

#include "commands/commands.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/generated/sample_set.hpp"

namespace dtrain {

int run_sample(const SampleCommand& command) {
  const SampleSetReport report = write_sample_set(command.kind, command.output, command.count, command.seed);
  std::printf("%s written to %s\nnext: %s\n", count_of(report.pictures, "picture").c_str(), command.output.c_str(),
              report.next_command.c_str());
  return 0;
}

}  // namespace dtrain
