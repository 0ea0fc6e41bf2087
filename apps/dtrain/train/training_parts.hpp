#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/trace.hpp"
#include "dtrain/checkpoint/tensors.hpp"
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
  std::string cache_line;      ///< what of the pictures is kept, for people; "": nothing
  LabelCounts trained_labels;  ///< of the training part
  int64_t steps_per_epoch = 0;

  std::unique_ptr<Replica> replica;
  std::unique_ptr<Loss> loss;
  std::unique_ptr<Schedule> schedule;
  std::unique_ptr<PictureCache> device_cache;       ///< null: none
  std::unique_ptr<SharedPictures> shared_pictures;  ///< null: none
  std::unique_ptr<Loader> loader;
  std::unique_ptr<DeviceBatches> batches;  ///< the loader's, on the device
  std::unique_ptr<Trainer> trainer;

 private:
  void make_cache(const RunContext& run, const Plan& plan, int64_t epochs_left);
};

/// What a checkpoint holds of a replica: the network's tensors, as "model.NAME", and the optimizer's.
std::vector<FileTensor> checkpoint_tensors(Replica& replica);

}  // namespace dtrain
