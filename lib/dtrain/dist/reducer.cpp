#include "dtrain/dist/reducer.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/subtree_fold.hpp"

namespace dtrain {

namespace {

class ReadyHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit ReadyHook(std::function<void()> on_ready) : on_ready_(std::move(on_ready)) {}
  void operator()(const torch::autograd::Variable&) override { on_ready_(); }

 private:
  std::function<void()> on_ready_;
};

std::vector<at::Tensor> reversed(std::vector<at::Tensor> tensors) {
  std::reverse(tensors.begin(), tensors.end());
  return tensors;
}

// Cuts the layout into buckets of about `bucket_bytes`, whole tensors each, a smaller one first so that the sum begins
// early; the extra floats are the last bucket.
std::vector<Range> cut_buckets(const FlatLayout& layout, int64_t extra_numel, double bucket_mb) {
  const double bytes = (bucket_mb == 0 ? 4 : bucket_mb) * 1e6;
  std::vector<Range> buckets;
  Range open;
  for (size_t i = 0; i < layout.size(); ++i) {
    open.end = layout.range(i).end;
    const double limit = buckets.empty() ? std::min(bytes, 1e6) : bytes;
    if (static_cast<double>(open.size()) * 4 >= limit || i + 1 == layout.size()) {
      buckets.push_back(open);
      open.begin = open.end;
    }
  }
  if (extra_numel > 0) buckets.push_back({layout.numel(), layout.numel() + extra_numel});
  return buckets;
}

}  // namespace

struct GradientReducer::Impl {
  Impl(std::vector<at::Tensor> params, int64_t extra_count, std::unique_ptr<Communicator> communicator, int64_t v,
       double bucket_mb)
      : parameters(std::move(params)),
        layout(reversed(parameters)),
        extra_numel(extra_count),
        buckets(cut_buckets(layout, extra_numel, bucket_mb)),
        comm(std::move(communicator)),
        mine(carried(*comm, v)) {}

  std::vector<at::Tensor> parameters;
  FlatLayout layout;
  int64_t extra_numel;
  std::vector<Range> buckets;
  std::unique_ptr<Communicator> comm;
  Range mine;       // logical ranks of this process
  at::Tensor leaf;  // gradients and extra floats of the backward pass that is running; in the end the sum

  // One step.
  std::optional<CanonicalTree> tree;
  std::vector<TreeNode> owned;
  std::vector<Subtree> folded;    // of the passes before the last one
  std::vector<at::Tensor> spare;  // buffers for them
  int64_t current = -1;           // logical rank whose pass is running
  bool last_pass = false;
  std::vector<size_t> bucket_of;  // of each place in the layout
  std::vector<int64_t> missing;   // parameters of each bucket that the running pass has not reached
  size_t next_bucket = 0;         // buckets before it were handed to the thread

  // Between the two threads.
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<size_t> queue;
  size_t summed = 0;  // buckets done in this step
  bool leaving = false;
  std::exception_ptr failure;
  double exposed_s = 0;
  std::thread thread;

  void on_ready(size_t place) {
    if (--missing[bucket_of[place]] == 0 && last_pass) hand_over();
  }

  void hand_over() {  // in bucket order, so that all ranks sum the same bucket at the same time
    while (next_bucket < missing.size() && missing[next_bucket] <= 0) enqueue(next_bucket++);
  }

  void enqueue(size_t bucket) {
    const std::lock_guard lock(mutex);
    queue.push_back(bucket);
    changed.notify_all();
  }

  void run(const std::function<void()>& on_thread_start) {
    try {
      on_thread_start();
      const at::NoGradGuard no_grad;
      for (std::unique_lock lock(mutex);;) {
        changed.wait(lock, [&] { return leaving || !queue.empty(); });
        if (leaving) return;
        const size_t bucket = queue.front();
        queue.pop_front();
        lock.unlock();
        sum_bucket(bucket);
        lock.lock();
        ++summed;
        changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      changed.notify_all();
    }
  }

  void sum_bucket(size_t bucket) {
    const Range range = buckets[bucket];
    const auto part = [&](const at::Tensor& flat) { return flat.slice(0, range.begin, range.end); };
    std::vector<Subtree> parts;
    for (const Subtree& subtree : folded) parts.push_back({subtree.node, part(subtree.sum)});
    if (current >= 0) fold_leaf(*tree, owned, {{0, current}, part(leaf)}, parts);
    check(parts.size() == owned.size(), "a process ends a step with the subtrees it owns");
    std::vector<at::Tensor> sums;
    for (const Subtree& subtree : parts) sums.push_back(subtree.sum);
    canonical_sum(*comm, *tree, sums, part(leaf));
  }

  // Puts a finished pass that is not the last away, so that `leaf` can be used again.
  void fold_pass() {
    const at::NoGradGuard no_grad;
    const size_t before = folded.size();
    std::vector<at::Tensor> held;
    for (const Subtree& subtree : folded) held.push_back(subtree.sum);
    fold_leaf(*tree, owned, {{0, current}, leaf}, folded);
    if (folded.size() > before) {  // it joined nothing: keep a copy
      if (spare.empty()) spare.push_back(at::empty_like(leaf));
      spare.back().copy_(leaf);
      folded.back().sum = spare.back();
      spare.pop_back();
    } else {
      for (size_t i = folded.size(); i < held.size(); ++i) spare.push_back(held[i]);  // joined into their left siblings
    }
  }
};

GradientReducer::GradientReducer(std::vector<at::Tensor> parameters, int64_t extra_numel,
                                 std::unique_ptr<Communicator> comm, int64_t logical_ranks, double bucket_mb,
                                 std::function<void()> on_thread_start)
    : impl_(std::make_unique<Impl>(std::move(parameters), extra_numel, std::move(comm), logical_ranks, bucket_mb)) {
  Impl& r = *impl_;
  check(!r.parameters.empty(), "a network has parameters");
  r.leaf = at::zeros({r.layout.numel() + extra_numel}, r.parameters.front().options().requires_grad(false));
  for (size_t i = 0; i < r.parameters.size(); ++i) {
    const size_t place = place_of(i);
    r.parameters[i].mutable_grad() = r.layout.view(r.leaf, place);
    torch::autograd::impl::set_post_acc_grad_hooks(r.parameters[i],
                                                   std::make_unique<ReadyHook>([&r, place] { r.on_ready(place); }));
  }
  for (size_t place = 0, bucket = 0; place < r.layout.size(); ++place) {
    while (r.layout.range(place).begin >= r.buckets[bucket].end) ++bucket;
    r.bucket_of.push_back(bucket);
  }
  r.thread = std::thread([&r, start = std::move(on_thread_start)] { r.run(start); });
}

GradientReducer::~GradientReducer() {
  for (at::Tensor& parameter : impl_->parameters) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
    parameter.mutable_grad().reset();
  }
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->leaving = true;
    impl_->changed.notify_all();
  }
  impl_->thread.join();
}

const FlatLayout& GradientReducer::layout() const { return impl_->layout; }
size_t GradientReducer::place_of(size_t parameter) const { return impl_->parameters.size() - 1 - parameter; }
size_t GradientReducer::bucket_count() const { return impl_->buckets.size(); }
double GradientReducer::exposed_s() const { return impl_->exposed_s; }
at::Tensor GradientReducer::gradients() const { return impl_->leaf.slice(0, 0, impl_->layout.numel()); }
at::Tensor GradientReducer::extra() const { return impl_->leaf.slice(0, impl_->layout.numel()); }

void GradientReducer::begin_step(const CanonicalTree& tree) {
  Impl& r = *impl_;
  r.tree = tree;
  r.owned = tree.owned_subtrees(r.mine);
  for (Subtree& subtree : r.folded) r.spare.push_back(subtree.sum);
  r.folded.clear();
  r.current = -1;
  r.last_pass = false;
  r.next_bucket = 0;
  const std::lock_guard lock(r.mutex);
  r.summed = 0;
}

void GradientReducer::begin_leaf(int64_t logical_rank) {
  Impl& r = *impl_;
  check(logical_rank >= r.mine.begin && logical_rank < r.mine.end && r.tree->present(logical_rank),
        "a process runs the present logical ranks that it carries");
  r.current = logical_rank;
  r.last_pass = true;
  for (int64_t v = logical_rank + 1; v < r.mine.end; ++v) r.last_pass = r.last_pass && !r.tree->present(v);
  r.leaf.zero_();
  r.missing.assign(r.buckets.size(), 0);
  for (size_t bucket : r.bucket_of) ++r.missing[bucket];
  if (r.extra_numel > 0) r.missing.back() = 1;
}

void GradientReducer::end_leaf(const at::Tensor& extra_floats) {
  Impl& r = *impl_;
  if (r.extra_numel > 0) r.leaf.slice(0, r.layout.numel()).copy_(extra_floats);
  if (!r.last_pass) r.fold_pass();
}

void GradientReducer::finish() {
  Impl& r = *impl_;
  const Stopwatch waiting;
  if (r.current < 0) r.missing.assign(r.buckets.size(), 0);  // no pass here: the sums of the others still pass through
  while (r.next_bucket < r.buckets.size()) r.enqueue(r.next_bucket++);
  std::unique_lock lock(r.mutex);
  r.changed.wait(lock, [&] { return r.failure != nullptr || r.summed == r.buckets.size(); });
  r.exposed_s += waiting.seconds();
  if (r.failure != nullptr) std::rethrow_exception(r.failure);
}

}  // namespace dtrain
