#include <cstdio>

#include "commands/commands.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/generated/sample_set.hpp"

namespace dtrain {

int run_sample(const SampleCommand& command) {
  const PictureSize size = command.size.empty() ? PictureSize{} : PictureSize{command.size[0], command.size[1]};
  const SampleSetReport report =
      write_sample_set(command.kind, command.output, command.count, command.seed, size, bound_cores().size());
  std::printf("%s written to %s\nnext: %s\n", count_of(report.pictures, "picture").c_str(), command.output.c_str(),
              report.next_command.c_str());
  return 0;
}

}  // namespace dtrain
