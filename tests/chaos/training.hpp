#pragma once
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/train/trainer.hpp"
#include "dtrain/watch/watchdog.hpp"

namespace dtrain {

/// A small training on generated pictures, one logical rank a process: what faults are planted in.
class Training {
 public:
  struct Setting {
    const NetworkKind* network = network_kind("unet");
    int64_t base_width = 1;  ///< of the unet
    int64_t pixels = 16;     ///< height and width
    int64_t per_rank = 2;    ///< pictures of a process in a step
    int64_t steps = 8;       ///< of an epoch
    int64_t check_every = 1;
  };
  Training(const Setting& setting, Communicator& comm);

  /// One step, of the next epoch where this one has ended. Throws what Trainer::step() throws.
  void step();
  /// After a step() that threw, when the replica is whole again: the same step comes next.
  void again() { trainer_->begin_epoch(state_); }

  Replica& replica() { return *replica_; }
  const ReplicaCheck& check() const { return trainer_->replica_check(); }

 private:
  DataOptions data_;
  Dataset dataset_;
  std::vector<int64_t> samples_;
  Trace trace_{false};
  Watchdog watchdog_{{}, {}};
  Loss loss_;
  Schedule schedule_;
  TrainingState state_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace dtrain
