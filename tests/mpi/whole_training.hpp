#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/data/batches/device_batches.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/train/trainer.hpp"
#include "dtrain/watch/watchdog.hpp"

namespace dtrain::test {

/// What differs between trainings. The defaults are what a configuration leaves out.
struct TrainingSetting {
  std::string name;
  const NetworkKind* network = nullptr;
  int64_t pixels = 32;   ///< height and width
  int64_t samples = 21;  ///< for training; a third as many for validation
  int64_t per_rank = 2;  ///< samples per logical rank and pass
  int64_t accumulate = 1;
  int64_t epochs = 2;
  double bucket_mb = 0.02;  ///< so that there are several
  bool cache = false;       ///< pictures stay on the device
  bool graphs = false;      ///< on a GPU passes run as recorded graphs
  bool fused = false;       ///< norms in passes of their own: CPUs and GPUs add up in other orders then
  double dropout = 0;       ///< 0 with graphs: it draws on the host, which no graph can record
  double mixup = 0;
  double clip_norm = 0;
  double l2_kernels = 0;
  double ema = 0;
  const OptimizerKind* optimizer = optimizer_kind("adam");
  const LossKind* loss = nullptr;  ///< null: the task's
  std::string frozen = "";         ///< these parameters, in the first epoch
  bool by_name_only = false;       ///< it takes long
};

/// A whole small training with validation after each epoch, made of the program's own parts as apps/dtrain puts them
/// together: on a GPU pictures come raw in pinned memory and are finished there, a batch ahead. Pixels are NHWC on both
/// kinds of device and operators, unless `fused`, LibTorch's one by one, so that CPU and host GPU compute the same.
class WholeTraining {
 public:
  static constexpr int64_t kLogicalRanks = 8;

  /// `gradients`: carries them between the ranks of `comm`.
  WholeTraining(const TrainingSetting& setting, const Device& device, Communicator& comm,
                std::unique_ptr<Communicator> gradients);

  /// Takes steps of the first epoch. Needs so many.
  void take_steps(int64_t count);

  /// Trains to the end. Returns a text of all that came out: losses, and hashes of weights, statistics and optimizer
  /// state.
  std::string run();

 private:
  std::string validate();

  TrainingSetting setting_;
  Communicator& comm_;
  DataOptions data_;
  Dataset dataset_;
  std::vector<int64_t> train_, valid_;
  Trace trace_{false};
  Watchdog watchdog_{{}, {}};
  Loss loss_;
  Schedule schedule_;
  TrainingState state_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<PictureCache> cache_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<DeviceBatches> batches_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace dtrain::test
