#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/data/batches/loader.hpp"
#include "dtrain/train/trainer.hpp"
#include "dtrain/watch/watchdog.hpp"

namespace dtrain {

/// A small training run on generated pictures, one logical rank per process, in which faults are planted.
class Training {
 public:
  struct Setting {
    const NetworkKind* network = network_kind("unet");
    int64_t base_width = 1;  ///< of the unet
    int64_t pixels = 16;     ///< height and width
    int64_t per_rank = 2;    ///< pictures per process and step
    int64_t steps = 8;       ///< per epoch
    int64_t check_every = 1;
  };
  /// `gradients`: carries them, by default a duplicate of `comm`. `watchdog`: default none.
  Training(const Setting& setting, Communicator& comm, std::unique_ptr<Communicator> gradients = nullptr,
           Watchdog* watchdog = nullptr);

  /// One step, of the next epoch if this one has ended. Throws what Trainer::step() throws.
  void step();
  /// Called after a step() that threw, once the replica is restored: the same step comes next.
  void again() { trainer_->begin_epoch(state_); }

  Replica& replica() { return *replica_; }
  const ReplicaCheck& check() const { return trainer_->replica_check(); }

 private:
  DataOptions data_;
  Dataset dataset_;
  std::vector<int64_t> samples_;
  Trace trace_{false};
  Watchdog nobody_{{}, {}};
  Loss loss_;
  Schedule schedule_;
  TrainingState state_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace dtrain
