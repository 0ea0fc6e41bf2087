#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/shards.hpp"
#include "dtrain/device/device.hpp"
#include "dtrain/dist/communicator.hpp"
#include "dtrain/dist/fold_plan.hpp"
#include "dtrain/dist/options.hpp"

namespace dtrain {

/// The flat float32 buffers, on `device`, that this process's backward passes fill, and one way to add them up over all
/// logical ranks (docs/architecture.md, "The canonical sum").
///
///   sum.begin(tree);                          // which logical ranks take part
///   …the passes of sum.plan() fill sum.buffer(pass.buffer), add() as the plan says between them…
///   for (range : …) sum.sum(range);           // buffer(0) then holds the sums there, the same on every rank
class BucketSum {
 public:
  virtual ~BucketSum() = default;
  BucketSum(const BucketSum&) = delete;
  BucketSum& operator=(const BucketSum&) = delete;

  int64_t numel() const { return numel_; }
  /// [numel], zero at first. There are most_fold_buffers() of them.
  const at::Tensor& buffer(int i) const { return buffers_[static_cast<size_t>(i)]; }

  /// All ranks call it with the same tree, before the passes of a step.
  void begin(const CanonicalTree& tree);
  const FoldPlan& plan() const { return plan_; }
  /// Adds buffer `from` to buffer `into`, whole.
  void add(int into, int from);
  /// Adds up elements `range` of the buffers. All ranks call it with the same ranges in the same order; each returns
  /// when its own buffer(0) is complete there and no rank reads or writes its buffers any longer; on a GPU the work has
  /// then been issued to the calling thread's stream. Throws CommError.
  virtual void sum(Range range) = 0;

  /// How the bytes travel, for people: "shared memory within 2 hosts, messages between them".
  virtual std::string transport() const { return "messages"; }
  /// False: the sums begin when all of backward is done.
  virtual bool overlaps_backward() const { return true; }

 protected:
  BucketSum(Communicator& comm, const Device& device, int64_t logical_ranks, int64_t numel);
  virtual void tree_changed() {}
  /// Adds what the plan leaves into buffer 0; zeros where this process has no pass.
  void sum_own(Range range);

  Communicator& comm_;
  Device device_;
  int64_t logical_ranks_;
  int64_t numel_;
  std::vector<at::Tensor> buffers_;
  std::unique_ptr<CanonicalTree> tree_;
  FoldPlan plan_;
};

/// `comm` outlives it and is used only by the thread that calls sum(). All ranks call it together.
std::unique_ptr<BucketSum> make_bucket_sum(Reduction reduction, Communicator& comm, const Device& device,
                                           int64_t logical_ranks, int64_t numel);

/// Reduction::canonical, in canonical_sum.cpp.
std::unique_ptr<BucketSum> make_canonical_sum(Communicator& comm, const Device& device, int64_t logical_ranks,
                                              int64_t numel);

}  // namespace dtrain
