#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/shards.hpp"
#include "dtrain/base/trace.hpp"
#include "dtrain/device/device.hpp"
#include "dtrain/device/mark.hpp"
#include "dtrain/dist/bucket_cost.hpp"
#include "dtrain/dist/communicator.hpp"
#include "dtrain/dist/flat_layout.hpp"
#include "dtrain/dist/options.hpp"

namespace dtrain {

/// Sums gradients over logical ranks while backward is still running.
/// Gradients are flat; a parameter's `.grad` is a view into the buffer of the running pass. LibTorch's
/// post-accumulate-grad hook counts the parameters of each bucket; when the last pass of this process in a step has
/// filled a bucket, a thread of the reducer sums it over the ranks (BucketSum), in bucket order, and hands it to
/// `on_summed`, while backward goes on. Buckets follow the order of `parameters`, ideally the one in which gradients
/// become ready (ready_order); another order costs time, never a bit. On a GPU "ready" and "summed" are points in the
/// work issued to the device: sums run on their own stream, ordered against backward's by events (SideStream).
///
/// One step:
///   begin_step(tree, on_summed);                          // which logical ranks take part
///   for each present logical rank v of this process, ascending:
///     begin_leaf(v);
///     for each micro-batch: begin_pass(is_last);  …forward, backward…   // or begin_pass(false); …replay…; replayed()
///     end_leaf(extra);
///   finish();                                             // gradients() and extra() hold the sums
class GradientReducer {
 public:
  struct Options {
    Device device = {};  ///< of the parameters
    int64_t logical_ranks = 1;
    Reduction reduction = Reduction::canonical;
    double bucket_mb = 0;  ///< 1e6 bytes per bucket, the first one a quarter; 0: from measured costs,
                           ///< or 4 where the reduction's bits depend on where buckets begin
    std::function<void()> on_thread_start = {};  ///< runs first on the reducer's thread (sets the intra-op threads)
    std::function<void()> on_sum = {};           ///< runs on it before each bucket's sum
  };
  using OnSummed = std::function<void(Range)>;

  /// `parameters`: leaf tensors that require a gradient, in the order of the layout; kept alive, their `.grad` is set
  /// here. `extra_numel`: floats summed along with the gradients (BatchNorm's buffers), passed to end_leaf(). From now
  /// on only the reducer's thread uses `comm`. `trace` gets a span for each bucket and outlives the reducer. All ranks
  /// construct it together.
  GradientReducer(std::vector<at::Tensor> parameters, int64_t extra_numel, std::unique_ptr<Communicator> comm,
                  Options options, Trace& trace);
  ~GradientReducer();  ///< clears the hooks, stops and joins the thread

  /// Parameter i of the list is at place i.
  const FlatLayout& layout() const;

  /// on_summed: called on the reducer's thread (on a GPU: issuing to a stream of its own) for each range of the layout
  /// (whole tensors) as soon as gradients() holds its sums; may be empty. finish() rethrows what it throws.
  void begin_step(const CanonicalTree& tree, OnSummed on_summed);
  /// Zeroes the gradients of logical rank v.
  void begin_leaf(int64_t logical_rank);
  /// Where the gradients of the leaf that has begun add up: always the same memory for a leaf's place in the plan.
  at::Tensor leaf_gradients() const;
  /// Before each backward pass of the leaf. Passes add up in `.grad`. Without `last_of_leaf` no hook begins a sum; the
  /// sums are the same.
  void begin_pass(bool last_of_leaf);
  /// Runs the backward pass of a graph that is being recorded, which fills no gradient. Calls `mark` where it will have
  /// filled a bucket, and in the end for those that it does not reach whole: a mark for each bucket of gradients, as
  /// long as the layout stays.
  std::vector<Mark> mark_buckets(const std::function<Mark()>& mark, const std::function<void()>& backward);
  /// After begin_pass(false): the leaf's last pass was a replay of that graph. Where hooks would have said which
  /// buckets are filled, their sums begin at these marks; without any, in finish().
  void replayed(const std::vector<Mark>& filled);
  /// extra: this leaf's floats, [extra_numel]. A parameter that backward did not reach counts as zero.
  void end_leaf(const at::Tensor& extra);
  /// Waits for all sums. Rethrows errors of the reducer's thread.
  void finish();

  /// After finish(): the sums over all present logical ranks.
  at::Tensor gradients() const;  ///< flat, [layout().numel()]
  at::Tensor extra() const;      ///< [extra_numel]

  /// Places in the order in which the last pass of the step made their gradients ready, those it did not reach at the
  /// end; empty if this process had no pass, or a replay.
  std::vector<size_t> ready_order() const;
  /// Between steps: lays out the gradients again, for the same parameters in another order, the same on all ranks.
  void reorder(std::vector<at::Tensor> parameters);
  /// Between steps, on all ranks together: from now on sums the gradients of these parameters, and as many more floats.
  void replace(std::vector<at::Tensor> parameters, int64_t extra_numel);

  /// Seconds that finish() waited after backward, since construction: for sums, and for on_summed.
  double exposed_s() const;
  double exposed_update_s() const;
  size_t bucket_count() const;
  /// BucketSum::transport().
  std::string transport() const;
  /// Rank 0's figures, equal on all ranks.
  const BucketCost& cost() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
