#include "commands/commands.hpp"
#include "train/training_run.hpp"

namespace dtrain {

int run_train(const TrainCommand& command, const Config& config, Job& job) {
  return TrainingRun(command, config, job).run();
}

}  // namespace dtrain
