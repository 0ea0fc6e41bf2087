#include "dtrain/dist/bucket_sum.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/message.hpp"

namespace dtrain {

BucketSum::BucketSum(Communicator& comm, const Device& device, int64_t logical_ranks, int64_t numel)
    : comm_(comm), device_(device), logical_ranks_(logical_ranks), numel_(numel) {}

void BucketSum::begin(const CanonicalTree& tree) {
  if (tree_ && *tree_ == tree) return;
  tree_ = std::make_unique<CanonicalTree>(tree);
  plan_ = make_fold_plan(tree, carried(comm_, logical_ranks_));
  tree_changed();
}

void BucketSum::add(int into, int from) {
  device_.math->add(buffer(into).mutable_data_ptr<float>(), buffer(from).const_data_ptr<float>(), numel_);
}

void BucketSum::sum_own(Range range) {
  if (plan_.sums.empty()) buffer(0).slice(0, range.begin, range.end).zero_();
  for (size_t i = 1; i < plan_.sums.size(); ++i)  // the first one is in buffer 0 already
    device_.math->add(buffer(0).mutable_data_ptr<float>() + range.begin,
                      buffer(plan_.sums[i].buffer).const_data_ptr<float>() + range.begin, range.size());
}

namespace {

// The sums over ranks that need only this process's own memory.
class OwnBufferSum : public BucketSum {
 public:
  OwnBufferSum(Communicator& comm, const Device& device, int64_t logical_ranks, int64_t numel)
      : BucketSum(comm, device, logical_ranks, numel) {
    const int count = most_fold_buffers(logical_ranks, carried(comm, logical_ranks));
    for (int i = 0; i < count; ++i)
      buffers_.push_back(at::zeros({numel}, at::TensorOptions(at::kFloat).device(device.place)));
  }

  void sum(Range range) final {
    sum_own(range);
    if (comm_.size() > 1 && range.size() > 0) sum_ranks(buffer(0).slice(0, range.begin, range.end));
  }

 protected:
  virtual void sum_ranks(at::Tensor values) = 0;
};

class RingSum final : public OwnBufferSum {
 public:
  using OwnBufferSum::OwnBufferSum;
  std::string transport() const override { return comm_.rings() ? comm_.all_reduce_transport() : "messages"; }

 private:
  // If the transport has no ring of its own, this is one: part k of the values travels around and is added to; after
  // n − 1 hops rank k − 1 has its sum. Then the sums travel around once more.
  void sum_ranks(at::Tensor values) override {
    if (comm_.rings()) return comm_.all_reduce(values);
    const int n = comm_.size();
    const auto part = [&](int k) {
      const Range range = part_of(values.numel(), n, (k % n + n) % n);
      return values.slice(0, range.begin, range.end);
    };
    for (int hop = 0; hop + 1 < n; ++hop) {
      const at::Tensor mine = part(comm_.rank() - hop - 1);
      const at::Tensor arriving = at::empty_like(mine);
      pass_on(part(comm_.rank() - hop), arriving);
      device_.math->add(mine.mutable_data_ptr<float>(), arriving.const_data_ptr<float>(), mine.numel());
    }
    for (int hop = 0; hop + 1 < n; ++hop) pass_on(part(comm_.rank() + 1 - hop), part(comm_.rank() - hop));
  }

  void pass_on(const at::Tensor& to_next, const at::Tensor& from_previous) {
    const int n = comm_.size();
    std::vector<Message> sends;
    std::vector<Message> receives;
    if (to_next.numel() > 0) sends.push_back({(comm_.rank() + 1) % n, to_next});
    if (from_previous.numel() > 0) receives.push_back({(comm_.rank() + n - 1) % n, from_previous});
    comm_.exchange(sends, receives);
  }
};

class FastestSum final : public OwnBufferSum {
 public:
  using OwnBufferSum::OwnBufferSum;
  std::string transport() const override { return comm_.all_reduce_transport(); }

 private:
  void sum_ranks(at::Tensor values) override { comm_.all_reduce(values); }
};

class RootSum final : public OwnBufferSum {
 public:
  using OwnBufferSum::OwnBufferSum;
  bool overlaps_backward() const override { return false; }

 private:
  void sum_ranks(at::Tensor values) override {
    if (comm_.rank() != 0) {
      comm_.exchange({{0, values}}, {});
      comm_.exchange({}, {{0, values}});
      return;
    }
    const at::Tensor sum = values.cpu();
    std::vector<Message> arriving;
    std::vector<Message> leaving;
    for (int r = 1; r < comm_.size(); ++r) {
      arriving.push_back({r, at::empty_like(sum)});
      leaving.push_back({r, sum});
    }
    comm_.exchange({}, arriving);
    for (const Message& message : arriving)
      host_math().add(sum.mutable_data_ptr<float>(), message.data.const_data_ptr<float>(), sum.numel());
    comm_.exchange(leaving, {});
    if (!values.is_cpu()) values.copy_(sum);
  }
};

}  // namespace

std::unique_ptr<BucketSum> make_bucket_sum(Reduction reduction, Communicator& comm, const Device& device,
                                           int64_t logical_ranks, int64_t numel) {
  switch (reduction) {
    case Reduction::canonical:
      return make_canonical_sum(comm, device, logical_ranks, numel);
    case Reduction::ring:
      return std::make_unique<RingSum>(comm, device, logical_ranks, numel);
    case Reduction::fastest:
      return std::make_unique<FastestSum>(comm, device, logical_ranks, numel);
    case Reduction::root_cpu:
      return std::make_unique<RootSum>(comm, device, logical_ranks, numel);
  }
  throw InternalError("make_bucket_sum: no such reduction");
}

}  // namespace dtrain
