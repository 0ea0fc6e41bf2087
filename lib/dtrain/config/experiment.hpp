#pragma once
#include <cstdint>
#include <string>

#include "dtrain/base/task.hpp"
#include "dtrain/checkpoint/options.hpp"
#include "dtrain/data/options.hpp"
#include "dtrain/device/options.hpp"
#include "dtrain/dist/options.hpp"
#include "dtrain/model/options.hpp"
#include "dtrain/optim/options.hpp"

namespace dtrain {

/// Everything a configuration says, with every default filled in and every path absolute.
struct Experiment {
  std::string name = "run";  ///< the run folder is output_dir/name
  Task task = Task::from_format;
  uint64_t seed = 0;
  int64_t epochs = 1;
  Precision precision = Precision::fp32;
  DeviceChoice device = DeviceChoice::automatic;
  bool deterministic = true;  ///< on a GPU: the same bits for any number of processes, at the cost of speed
  bool cuda_graphs = false;   ///< on a GPU: passes run as recorded graphs
  ModelOptions model;
  LossOptions loss;
  DataOptions data;
  BatchOptions batch;
  OptimizerOptions optimizer = optimizer_defaults(default_optimizer());
  ScheduleOptions schedule;
  EarlyStopOptions early_stop;
  EmaOptions ema;
  DistributedOptions distributed;
  CheckpointOptions checkpoint;
  bool skip_not_finite = false;  ///< on_nan: skip; a step whose loss or gradient is not finite changes no weight
  std::string output_dir = "runs";
  bool tensorboard = false;  ///< the run folder gets tensorboard/ too
};

}  // namespace dtrain
