#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/stop_signal.hpp"
#include "dtrain/checkpoint/state.hpp"
#include "dtrain/data/loader.hpp"
#include "dtrain/data/sampler.hpp"
#include "dtrain/dist/communicator.hpp"
#include "dtrain/dist/options.hpp"
#include "dtrain/dist/reducer.hpp"
#include "dtrain/dist/watchdog.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/optim/schedule.hpp"
#include "dtrain/train/replica.hpp"

namespace dtrain {

/// What one update tells; equal on all ranks.
struct StepReport {
  double loss = 0;  ///< mean over the step's samples
  double learning_rate = 0;
  StopRequest request = StopRequest::none;  ///< the strongest that any rank's signals asked for
};

/// Training steps over the logical ranks that this process carries. Knows steps: no files, no YAML, no MPI.
///
///   trainer.begin_epoch(state);
///   while (trainer.steps_left() > 0) trainer.step(state, pending_request);
///   trainer.end_epoch(state);
class Trainer {
 public:
  struct Parts {  ///< all outlive the trainer
    Replica& replica;
    const Loss& loss;
    const Schedule& schedule;
    Loader& loader;
    Communicator& comm;
    Watchdog& watchdog;
    const Dataset& dataset;
    const std::vector<int64_t>& train;  ///< Split::train
  };
  struct Options {
    Task task = Task::multilabel;
    uint64_t seed = 0;
    int64_t logical_ranks = 1;
    int64_t threads = 1;
    double bucket_mb = 0;
    double l2_kernels = 0;
    BatchOptions batch;
    Distribute distribute = Distribute::samples;
  };
  Trainer(const Parts& parts, const Options& options);

  /// Plans the epoch state.epoch and starts the loader at state.cursor.
  void begin_epoch(const TrainingState& state);
  int64_t steps_left() const;
  /// Steps of the epoch that is running, and how many of them are done.
  int64_t steps() const { return plan_->steps(); }
  int64_t steps_done() const { return at_; }

  /// One update. Counts it in `state`. `request`: what this process's signals ask for; the answer is agreed.
  /// Throws DivergedError on all ranks when the loss, a summed gradient or an updated weight is not finite.
  StepReport step(TrainingState& state, StopRequest request);

  /// Closes the receipt: every sample of the plan was seen exactly once over all ranks, else InternalError. The state
  /// then stands before the next epoch; what the epoch's row needs is in `finished`.
  struct Finished {
    double train_loss = 0;  ///< mean over the epoch's samples
    int64_t samples = 0;
    int64_t correct = 0;
    int64_t steps = 0;
    double epoch_seconds = 0;  ///< in step(), over all starts
    double data_wait_s = 0;    ///< of this process: waiting for the loader
    double allreduce_s = 0;    ///< of this process: waiting for sums after backward was done
    double queue_fill = 0;     ///< since begin_epoch()
    int64_t bytes_read = 0;
  };
  Finished end_epoch(TrainingState& state);

 private:
  struct Pass {  ///< forward and backward of one logical rank
    double loss_sum = 0;
    int64_t correct = 0;
    uint64_t coverage = 0;
  };
  /// What all logical ranks' passes came to; equal on all ranks.
  struct Sums {
    double loss = 0;
    int64_t correct = 0;
    uint64_t coverage = 0;
    StopRequest request = StopRequest::none;
  };
  Pass run_pass(int64_t logical_rank, int64_t global_count, int64_t step);
  at::Tensor run_passes(const CanonicalTree& tree, int64_t step);
  Sums agree(const CanonicalTree& tree, at::Tensor rows, StopRequest request, int64_t step);
  void update(const CanonicalTree& tree, double learning_rate, int64_t step);
  void add_kernel_penalty(const at::Tensor& gradients);

  Parts parts_;
  Options options_;
  Range mine_;
  std::vector<size_t> kernels_;  // places in the layout
  GradientReducer reducer_;
  std::unique_ptr<EpochPlan> plan_;
  int64_t at_ = 0;      // next step of the plan
  double agree_s_ = 0;  // waiting for the other ranks' rows, since construction
  struct Before {       // what the state said when the epoch began here; its earlier starts' share
    double data_wait_s = 0;
    double allreduce_s = 0;
    int64_t bytes_read = 0;
  } before_;
};

}  // namespace dtrain
