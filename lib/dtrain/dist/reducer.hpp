#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dtrain/base/shards.hpp"
#include "dtrain/dist/communicator.hpp"
#include "dtrain/dist/flat_layout.hpp"

namespace dtrain {

/// Sums gradients over logical ranks while backward is still running.
///
/// Gradients lie flat in buckets; a parameter's `.grad` is a view into them. LibTorch's post-accumulate-grad hook
/// counts a bucket's parameters; when the last backward pass of this process in a step has filled a bucket, a thread of
/// the reducer folds it with the passes before and sums it over the ranks (canonical_sum), in bucket order, on its own
/// communicator, while backward goes on. The order of gradients is taken to be the reverse of `parameters` (the order
/// in which forward uses them); a wrong guess costs time, never a bit.
///
/// One step:
///   begin_step(tree);                                     // which logical ranks take part
///   for each present logical rank v of this process, ascending:
///     begin_leaf(v);  …forward, backward…;  end_leaf(extra);
///   finish();                                             // .grad and extra() hold the sums over all logical ranks
class GradientReducer {
 public:
  /// parameters  leaf tensors that require a gradient, in the order forward uses them; kept alive. Their `.grad` is set
  /// here. extra       floats summed beside the gradients (BatchNorm's buffers): [extra_numel] handed to end_leaf()
  /// comm        used by the reducer's thread alone from now on
  /// bucket_mb   1e6 bytes per bucket; 0 = auto (4, the first one 1: Open MPI is fastest there)
  /// on_thread_start  runs first on the reducer's thread (sets the intra-op threads)
  GradientReducer(std::vector<at::Tensor> parameters, int64_t extra_numel, std::unique_ptr<Communicator> comm,
                  int64_t logical_ranks, double bucket_mb, std::function<void()> on_thread_start);
  ~GradientReducer();  ///< clears the hooks, stops and joins the thread

  /// Parameters and gradients lie in this layout, in reverse order of `parameters`.
  const FlatLayout& layout() const;
  /// Place of parameter i of the constructor's list in layout().
  size_t place_of(size_t parameter) const;

  void begin_step(const CanonicalTree& tree);
  /// Zeroes the gradients for logical rank v's backward pass.
  void begin_leaf(int64_t logical_rank);
  /// extra: this leaf's floats, [extra_numel]. A parameter that backward did not reach counts as zero.
  void end_leaf(const at::Tensor& extra);
  /// Waits for all sums. Rethrows what the reducer's thread met.
  void finish();

  /// After finish(): the sums over all present logical ranks.
  at::Tensor gradients() const;  ///< flat, [layout().numel()]
  at::Tensor extra() const;      ///< [extra_numel]

  /// Seconds that finish() waited after backward, since construction: the all-reduce time that was not hidden.
  double exposed_s() const;
  size_t bucket_count() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
