#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/stop_signal.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/base/timing.hpp"
#include "dtrain/base/trace.hpp"
#include "dtrain/checkpoint/state.hpp"
#include "dtrain/data/batches/batch_source.hpp"
#include "dtrain/data/order/sampler.hpp"
#include "dtrain/data/store/dataset.hpp"
#include "dtrain/device/late_copy.hpp"
#include "dtrain/dist/communicator.hpp"
#include "dtrain/dist/options.hpp"
#include "dtrain/dist/reducer.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/optim/schedule.hpp"
#include "dtrain/train/graphed_pass.hpp"
#include "dtrain/train/mixing.hpp"
#include "dtrain/train/replica.hpp"
#include "dtrain/train/replica_check.hpp"
#include "dtrain/watch/watchdog.hpp"

namespace dtrain {

/// The outcome of one update; equal on all ranks.
struct StepReport {
  double loss = 0;  ///< mean over the step's samples
  double learning_rate = 0;
  bool skipped = false;              ///< the update was left out
  std::string not_finite;            ///< on_nan: skip: why the update was left out, else ""
  std::optional<double> loss_scale;  ///< fp16: the step's; halved where a gradient overflowed and the step was skipped
  StopRequest request = StopRequest::none;  ///< the strongest that any rank's signals asked for
};

/// Training steps over the logical ranks of this process. Knows only steps: no files, no YAML, no MPI.
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
    BatchSource& loader;
    Communicator& comm;
    Watchdog& watchdog;
    const Dataset& dataset;
    const std::vector<int64_t>& train;  ///< Split::train
    Trace& trace;
  };
  struct Options {
    Task task = Task::multilabel;
    uint64_t seed = 0;
    int64_t logical_ranks = 1;
    DistributedOptions distributed;
    double l2_kernels = 0;  ///< λ of loss.l2_kernels: λ·Σw² over convolution kernels is added to the loss; 0: off
    double clip_norm = 0;   ///< largest norm of all gradients together, beyond which they are scaled down; 0: off
    BatchOptions batch;
    Sampling sampling = Sampling::uniform;
    Distribute distribute = Distribute::samples;
    bool skip_not_finite = false;                      ///< on_nan: skip
    bool cuda_graphs = false;                          ///< on a GPU passes run as recorded graphs
    MixOptions mix = {};                               ///< of each backward pass's batch
    LoaderOptions loader = {};                         ///< on_bad_sample, max_bad and pipeline
    Duration freeze_until{0, Duration::Unit::epochs};  ///< OptimizerOptions::freeze_until
    int64_t resolutions = 1;      ///< of the logits that the loss is taken of (Network::forward_all)
    bool adds_up_first = false;   ///< adds_up_first() of the loss: one more forward pass for its sums over a step
    double frequencies_loss = 0;  ///< Loss::of_frequencies of the training part; 0: not known
  };
  static constexpr int64_t kMostNotFinite = 10;  ///< steps skipped in a row under skip_not_finite

  /// `gradient_comm`: carries the sums of gradients, between the ranks of parts.comm.
  Trainer(const Parts& parts, const Options& options, std::unique_ptr<Communicator> gradient_comm);

  /// Plans the epoch state.epoch and starts the loader at state.cursor.
  void begin_epoch(const TrainingState& state);
  int64_t steps_left() const;
  /// Frozen groups train from the next step on, as Replica::thaw() says: step() calls it when it is time, and sets
  /// state.thawed_at; a resumed run calls it with that before it fills the replica from a checkpoint in which they do.
  /// All ranks together.
  void thaw(int64_t updates);
  /// Steps of the epoch that is running, and how many of them are done.
  int64_t steps() const { return epoch_.plan->steps(); }
  int64_t steps_done() const { return epoch_.at; }

  /// One update. Counts it in `state`. `request`: what this process's signals ask for; the answer is agreed. With fp16
  /// or skip_not_finite an update may be skipped: then weights and optimizer stay, and everything else proceeds as
  /// after any step; BatchNorm's statistics stay too if the new ones are not finite. Throws on all ranks: DivergedError
  /// when the loss, an updated weight or a summed gradient (fp16: at the least loss scale; skip_not_finite:
  /// kMostNotFinite times in a row) is not finite, naming the first such value, and when the loss has run away
  /// (LossWatch); DataError when more than loader.max_bad samples of the epoch were replaced; Error with
  /// kReplicasDiffer when replicas have drifted apart.
  StepReport step(TrainingState& state, StopRequest request);

  /// Closes the receipt: every draw of the plan was seen exactly once over all ranks, or another in its place, which
  /// `replaced_samples` counts; otherwise InternalError. The state is then the one before the next epoch; what the
  /// epoch's row needs is in `finished`.
  struct Finished {
    double train_loss = 0;  ///< mean over the epoch's samples
    int64_t samples = 0;
    int64_t correct = 0;
    int64_t steps = 0;
    int64_t skipped_steps = 0;     ///< of these, the update was skipped
    int64_t replaced_samples = 0;  ///< of `samples`, those that others took the places of
    Timing timing;                 ///< of this process, over all starts
    Timing here;                   ///< of this process since begin_epoch()
    BatchSource::Figures loaded;   ///< since begin_epoch()
  };
  Finished end_epoch(TrainingState& state);

  /// Compares all of the replicas now; throws as step().
  void require_equal_replicas(int64_t step) { check_.compare_now(step); }
  /// What this process replaced since begin_epoch().
  const std::vector<Replaced>& replaced() const { return epoch_.replaced; }
  const GradientReducer& reducer() const { return reducer_; }
  const ReplicaCheck& replica_check() const { return check_; }
  /// Of this process since begin_epoch(), up to the last step.
  const Timing& spent() const { return epoch_.spent; }

 private:
  struct Pass {  ///< forward and backward of one micro-batch
    int64_t logical_rank = 0;
    LateCopy figures;  ///< [2], float64: Σ of the samples' losses, and how many of them are classified right
    int64_t replaced = 0;
    uint64_t coverage = 0;
  };
  /// What a pass computes on: samples, pictures, and targets; with mixing these are the samples' own, then their
  /// partners', whose share of the loss is the rest.
  struct PassInput {
    std::vector<int64_t> samples;
    at::Tensor images;
    at::Tensor targets;
    double mix_share = 1;
    int64_t replaced = 0;  // of the samples, those that others took the places of
  };
  struct RunningEpoch {
    std::unique_ptr<EpochPlan> plan;
    int64_t at = 0;                  // next step of the plan
    std::deque<PassInput> seen;      // inputs of this step's passes that add_up_batch() has taken
    std::deque<Pass> issued;         // passes of this step that are not settled, at most two
    std::vector<Replaced> replaced;  // by this process, since begin_epoch()
    Timing spent;                    // likewise
    Timing before;                   // what the state said when the epoch began here: its earlier starts' share
  };
  /// From samples' losses to the loss that backward begins with, and from summed gradients to those of the mean loss.
  /// Recorded passes read the tensors, which therefore stay where they are, on the device: [], float32, but for
  /// `batch`.
  struct LossFactors {
    at::Tensor divisor;                     // of this step: what the samples' losses are divided by
    at::Tensor mix_share;                   // of this pass: its own targets' share of the loss
    double gradients = 1;                   // of this step: what makes summed gradients those of the mean loss
    BatchSums batch = {};                   // of this step, where adds_up_first(); sums of each resolution
    std::optional<int64_t> spoilt_by = {};  // the first logical rank whose sums for it are not finite
  };
  /// The combined result of all logical ranks' passes; equal on all ranks.
  struct Sums {
    double loss = 0;
    int64_t correct = 0;
    uint64_t coverage = 0;
    int64_t replaced = 0;
    StopRequest request = StopRequest::none;
    std::string not_finite;  ///< whose loss, on which samples; "" if all are finite
  };
  bool thaws_now(const TrainingState& state) const;
  bool scales_loss() const { return parts_.replica.precision() == Precision::fp16; }
  /// Something needs the whole gradient before the first update, so no bucket is updated on its own.
  bool updates_at_once() const { return options_.clip_norm > 0 || scales_loss() || options_.skip_not_finite; }
  at::Tensor sums_of(const std::vector<at::Tensor>& logits, const at::Tensor& targets) const;
  double add_up_batch(const CanonicalTree& tree, int64_t step);
  PassInput take_input(int64_t logical_rank, int64_t step, int64_t micro);
  void prepare_pass(const PassInput& input, int64_t logical_rank, int64_t step, int64_t micro);
  at::Tensor losses_of(const std::vector<at::Tensor>& logits, const at::Tensor& targets) const;
  GraphedPass::Result forward_backward(const at::Tensor& images, const at::Tensor& targets, DeviceGraph* recording);
  GraphedPass* graph_for(const at::Tensor& images, const at::Tensor& targets);
  Pass run_micro_batch(int64_t logical_rank, int64_t step, int64_t micro, bool last);
  at::Tensor run_passes(const CanonicalTree& tree, int64_t step);
  void settle_pass(const at::Tensor& rows);
  Sums agree(const CanonicalTree& tree, at::Tensor rows, StopRequest request, int64_t step);
  void divide_loss();
  void add_kernel_penalty(Range range);
  void update_bucket(Range range);
  bool largest_gradient_is_finite() const;
  bool move_loss_scale(int64_t step);
  void update_at_once(double learning_rate);
  bool finish_update(const CanonicalTree& tree, double learning_rate, int64_t step, std::string& not_finite);
  void keep_finite_buffers(const at::Tensor& buffers, bool skipped);
  std::string some_samples(int64_t logical_rank) const;
  void require_finite(int64_t step);
  void watch_loss(TrainingState& state, double loss) const;
  CanonicalTree tree_of_step() const;
  void count_step(TrainingState& state, const Sums& sums, const StepReport& report);
  void count_time(TrainingState& state, double seconds);
  double gradient_norm() const;
  void adopt_ready_order();

  Parts parts_;
  Options options_;
  Range mine_;
  std::vector<size_t> kernels_;  // parameters that loss.l2_kernels acts on
  GradientReducer reducer_;
  ReplicaCheck check_;
  RunningEpoch epoch_;
  bool order_known_ = false;
  std::map<const void*, GraphedPass> graphs_;  // one for each buffer that gradients go to, by its address
  at::Tensor buffers_before_;                  // BatchNorm's statistics before this step
  int64_t not_finite_ = 0;                     // steps skipped in a row for values that are not finite
  LossFactors loss_factors_;
};

}  // namespace dtrain
