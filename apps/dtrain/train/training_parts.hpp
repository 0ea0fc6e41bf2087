#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/trace.hpp"
#include "dtrain/data/batches/device_batches.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/batches/shared_pictures.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/optim/schedule.hpp"
#include "dtrain/train/replica.hpp"
#include "dtrain/train/trainer.hpp"
#include "job/plan.hpp"
#include "train/run_context.hpp"

namespace dtrain {

/// data.loader.cache: which decoded pictures are kept, and where.
struct KeptPictures {
  std::string line;                                ///< for people; "": none are kept
  std::unique_ptr<PictureCache> on_device;         ///< null: none there
  std::unique_ptr<SharedPictures> in_host_memory;  ///< null: none there
};

/// What a training run is built of, once, before its first step. The later ones refer to the earlier ones, so it stays
/// where it is; `plan` and `trace` outlive it.
struct TrainingParts {
  /// All ranks together. `epochs_left`: how many a cache of pictures must serve. Refuses what plan, network and
  /// machine do not allow: ConfigError, DataError, MissingError, DeviceError.
  TrainingParts(const RunContext& run, const Plan& plan, int64_t epochs_left, Trace& trace);
  TrainingParts(const TrainingParts&) = delete;
  TrainingParts& operator=(const TrainingParts&) = delete;

  std::string fingerprint;     ///< of all that the result depends on
  std::string weights_line;    ///< which weights the network begins with, for people
  LabelCounts trained_labels;  ///< of the training part
  int64_t steps_per_epoch = 0;

  std::unique_ptr<Replica> replica;
  std::unique_ptr<Loss> loss;
  std::unique_ptr<Schedule> schedule;
  KeptPictures kept;
  std::unique_ptr<Loader> loader;
  std::unique_ptr<DeviceBatches> batches;  ///< the loader's, on the device
  std::unique_ptr<Trainer> trainer;
};

}  // namespace dtrain
