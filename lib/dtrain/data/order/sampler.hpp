#pragma once
#include <cstdint>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/data/order/balance.hpp"

namespace dtrain {

/// Samples of one full backward pass of a logical rank, the remainder of batch.global rounded up.
int64_t largest_batch(const BatchOptions& batch, int64_t logical_ranks);

/// Throws ConfigError when a training part of `samples` samples, or batch.global, has fewer than one for each logical
/// rank.
void require_enough_samples(int64_t samples, const BatchOptions& batch, int64_t logical_ranks);

/// Samples of one full step of all logical ranks together.
int64_t full_global_batch(const BatchOptions& batch, int64_t logical_ranks);

/// The order of one epoch: which logical rank takes which samples at which step. A pure function of its arguments.
///
/// Shuffle, then logical ranks, then batches: the part's samples are permuted by KeyedRandom(seed, epoch_order, epoch)
/// and cut into global batches. Within a global batch of m samples that k logical ranks share, logical rank v < k takes
///   distribute samples:  every k-th one, v, v + k, v + 2k …
///   distribute batches:  the v-th of k contiguous pieces (part_of(m, k, v))
/// k = V for a full batch. A short last batch of r samples goes to k = min(V, ⌊r/2⌋) logical ranks, so that each has at
/// least two (BatchNorm over one value is NaN); a remainder of one joins the batch before it. With drop_last the short
/// batch is left out. A single sample that is the whole part makes a batch of one.
///
/// With groups (data.sampling: balanced) the epoch has as many draws as the part has samples, those of
/// balanced_draws(), permuted and cut in the same way; some samples come several times, others not at all.
class EpochPlan {
 public:
  /// `samples`: number of samples in the part. Throws ConfigError when samples or the global batch are fewer than the
  /// logical ranks, and when drop_last leaves no batch at all. `groups`: sampled_groups() of the part.
  EpochPlan(int64_t samples, int64_t logical_ranks, const BatchOptions& batch, Distribute distribute, uint64_t seed,
            int64_t epoch, const std::vector<LabelGroup>& groups = {});

  int64_t steps() const { return static_cast<int64_t>(begins_.size()) - 1; }
  int64_t logical_ranks() const { return logical_ranks_; }
  /// Samples of all logical ranks in `step`.
  int64_t count(int64_t step) const;
  /// Samples of logical rank v in `step`; 0: it takes no part.
  int64_t count(int64_t step, int64_t logical_rank) const;
  /// The same count, cut into the batches that go through the network one after another: batch.accumulate of them in a
  /// full step, as many as their size requires in a short one; sizes differ by at most one, and none is a single sample
  /// unless a full one is.
  std::vector<int64_t> micro_batches(int64_t step, int64_t logical_rank) const;
  /// Places (0 … samples-1, into Split::train) that logical rank v takes in `step`, in order.
  std::vector<int64_t> places(int64_t step, int64_t logical_rank) const { return taken(order_, step, logical_rank); }
  /// For each of these how often the epoch has taken the sample before, which keys its augmentation; empty: never.
  std::vector<int64_t> repeats(int64_t step, int64_t logical_rank) const {
    return repeats_.empty() ? std::vector<int64_t>{} : taken(repeats_, step, logical_rank);
  }
  /// Samples done before `step`: the position a checkpoint stores. cursor(steps()) is the epoch's total.
  int64_t cursor(int64_t step) const { return begins_[static_cast<size_t>(step)]; }
  /// The step that begins at `cursor`; throws InternalError if none does.
  int64_t step_at(int64_t cursor) const;
  /// Samples per step when the batch is full.
  int64_t global_batch() const { return global_batch_; }

 private:
  /// Logical ranks that take part in `step`: the first ones.
  int64_t sharers(int64_t step) const;
  /// Of `all`, which lie as order_ does, those of a logical rank in a step.
  std::vector<int64_t> taken(const std::vector<int64_t>& all, int64_t step, int64_t logical_rank) const;
  void draw(const std::vector<LabelGroup>& groups, uint64_t seed, int64_t epoch);

  std::vector<int64_t> order_;    ///< the part's places, permuted
  std::vector<int64_t> repeats_;  ///< how often each place is in order_ before; empty where none comes twice
  std::vector<int64_t> begins_;   ///< where each step begins in order_; one more for the end
  int64_t logical_ranks_;
  int64_t global_batch_;
  int64_t micro_batch_;  ///< full batch of one backward pass
  int64_t accumulate_;   ///< most passes
  Distribute distribute_;
};

}  // namespace dtrain
