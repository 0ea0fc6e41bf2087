#include "dtrain/dist/reducer.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/device/side_stream.hpp"
#include "dtrain/dist/bucket_sum.hpp"

namespace dtrain {

namespace {

using Clock = std::chrono::steady_clock;

class ReadyHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit ReadyHook(std::function<void()> on_ready) : on_ready_(std::move(on_ready)) {}
  void operator()(const torch::autograd::Variable&) override { on_ready_(); }

 private:
  std::function<void()> on_ready_;
};

// Cuts the layout into buckets of whole tensors, of about `bucket_mb` each; the first is smaller, so that summing
// begins early; the extra floats are the last.
std::vector<Range> cut_buckets(const FlatLayout& layout, int64_t extra_numel, double bucket_mb) {
  std::vector<Range> buckets;
  Range open;
  for (size_t i = 0; i < layout.size(); ++i) {
    open.end = layout.range(i).end;
    const double limit = buckets.empty() ? bucket_mb / 4 : bucket_mb;
    if (static_cast<double>(open.size()) * 4 >= limit * 1e6 || i + 1 == layout.size()) {
      buckets.push_back(open);
      open.begin = open.end;
    }
  }
  if (extra_numel > 0) buckets.push_back({layout.numel(), layout.numel() + extra_numel});
  return buckets;
}

}  // namespace

struct GradientReducer::Impl {
  Impl(std::vector<at::Tensor> params, int64_t extra_count, std::unique_ptr<Communicator> communicator, Options given,
       Trace& given_trace)
      : trace(given_trace),
        parameters(std::move(params)),
        layout(parameters),
        extra_numel(extra_count),
        options(std::move(given)),
        comm(std::move(communicator)),
        sum(make_sum()),
        side(options.device.place) {}

  // On a GPU sums may still be under way in the background, in the buffers of `sum`: the communicator, which finishes
  // them or, after a failure, aborts them, goes first.
  ~Impl() { comm.reset(); }

  std::unique_ptr<BucketSum> make_sum() const {
    return make_bucket_sum(options.reduction, *comm, options.device, options.logical_ranks,
                           layout.numel() + extra_numel);
  }

  Trace& trace;
  std::vector<at::Tensor> parameters;
  FlatLayout layout;
  int64_t extra_numel;
  Options options;
  std::unique_ptr<Communicator> comm;
  std::unique_ptr<BucketSum> sum;
  SideStream side;
  std::vector<std::vector<at::Tensor>> views;  // views[buffer][index in the layout]

  struct Buckets {
    BucketCost cost;
    std::vector<Range> ranges;  // of the layout and the extra floats after it
    std::vector<size_t> of;     // the bucket of each tensor in the layout
  };
  Buckets buckets;

  // One step. The reducer's thread calls on_summed; all else is used only by the training threads.
  struct Step {
    OnSummed on_summed;
    size_t next_pass = 0;          // index in the plan
    bool filling = false;          // this is the process's last pass: what it finishes may be summed
    std::vector<int64_t> missing;  // for each bucket: parameters that this pass has not reached yet
    size_t next_bucket = 0;        // those before it were handed to the thread
    std::vector<size_t> ready;     // indices in the layout, in the order in which this pass reached them
    std::function<Mark()> mark;    // while a pass is recorded
    std::vector<Mark> marks;       // of its buckets
  };
  Step step;

  struct Filled {
    size_t bucket;
    Mark ready;
  };
  // Shared by the two threads.
  struct Shared {
    std::mutex mutex;  // guards all below
    std::condition_variable changed;
    std::deque<Filled> queue;
    size_t summed = 0;  // buckets done in this step; on a GPU: issued
    bool leaving = false;
    std::exception_ptr failure;
    std::vector<std::pair<Clock::time_point, Clock::time_point>> handling;  // on_summed's calls of this step
  };
  Shared shared;
  double exposed_s = 0;
  double exposed_update_s = 0;
  std::thread thread;

  const FoldPlan::Pass& pass() const { return sum->plan().passes[step.next_pass]; }
  bool is_last() const { return step.next_pass + 1 == sum->plan().passes.size(); }

  void lay_out() {
    if (measured()) buckets.cost.bucket_mb = best_bucket_mb(buckets.cost, layout.numel() * 4);
    buckets.ranges = cut_buckets(layout, extra_numel, buckets.cost.bucket_mb);
    buckets.of.clear();
    for (size_t place = 0, bucket = 0; place < layout.size(); ++place) {
      while (layout.range(place).begin >= buckets.ranges[bucket].end) ++bucket;
      buckets.of.push_back(bucket);
    }
    views.clear();
    for (size_t place = 0; place < parameters.size(); ++place)
      torch::autograd::impl::set_post_acc_grad_hooks(parameters[place],
                                                     std::make_unique<ReadyHook>([this, place] { on_ready(place); }));
    point_gradients_to(0);
  }

  bool measured() const { return buckets.cost.latency_s > 0; }

  void point_gradients_to(int buffer) {
    const auto wanted = static_cast<size_t>(buffer);
    while (views.size() <= wanted) {
      views.emplace_back();
      const at::Tensor& flat = sum->buffer(static_cast<int>(views.size()) - 1);
      for (size_t place = 0; place < parameters.size(); ++place) views.back().push_back(layout.view(flat, place));
    }
    for (size_t place = 0; place < parameters.size(); ++place) parameters[place].mutable_grad() = views[wanted][place];
  }

  void on_ready(size_t place) {
    step.ready.push_back(place);
    const size_t bucket = buckets.of[place];
    if (--step.missing[bucket] > 0) return;
    if (step.mark)
      step.marks[bucket] = step.mark();
    else if (step.filling)
      hand_over();
  }

  void hand_over() {  // in bucket order, so that all ranks sum the same bucket at the same time
    if (!sum->overlaps_backward()) return;
    while (step.next_bucket < step.missing.size() && step.missing[step.next_bucket] <= 0)
      enqueue(step.next_bucket++, side.mark());
  }

  void enqueue(size_t bucket, const Mark& filled) {
    const std::lock_guard lock(shared.mutex);
    shared.queue.push_back({bucket, filled});
    shared.changed.notify_all();
  }

  void run() {
    try {
      trace.name_thread("reducer");
      // A new thread uses GPU 0, and freeing memory outside of a stream's scope would then create a context there.
      std::optional<c10::DeviceGuard> own;
      if (!options.device.place.is_cpu()) own.emplace(options.device.place);
      if (options.on_thread_start) options.on_thread_start();
      const at::NoGradGuard no_grad;
      for (std::unique_lock lock(shared.mutex);;) {
        shared.changed.wait(lock, [&] { return shared.leaving || !shared.queue.empty(); });
        if (shared.leaving) return;
        const Filled filled = shared.queue.front();
        const Range bucket = buckets.ranges[filled.bucket];
        shared.queue.pop_front();
        lock.unlock();
        SideStream::Scope scope;
        side.enter(filled.ready, scope);
        {
          const auto span = trace.span("sum bucket", static_cast<int64_t>(filled.bucket));
          if (options.on_sum) options.on_sum();
          sum->sum(bucket);
        }
        const Clock::time_point handed = Clock::now();
        if (step.on_summed && bucket.begin < layout.numel()) step.on_summed(bucket);
        lock.lock();
        shared.handling.emplace_back(handed, Clock::now());
        ++shared.summed;
        shared.changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(shared.mutex);
      shared.failure = std::current_exception();
      shared.changed.notify_all();
    }
  }
};

GradientReducer::GradientReducer(std::vector<at::Tensor> parameters, int64_t extra_numel,
                                 std::unique_ptr<Communicator> comm, Options options, Trace& trace)
    : impl_(std::make_unique<Impl>(std::move(parameters), extra_numel, std::move(comm), std::move(options), trace)) {
  Impl& r = *impl_;
  check(!r.parameters.empty(), "a network has parameters");
  if (r.options.bucket_mb > 0) {
    r.buckets.cost.bucket_mb = r.options.bucket_mb;
  } else if (r.options.reduction != Reduction::canonical) {
    r.buckets.cost.bucket_mb = 4;  // a measured size would give different bits in each run
  } else {
    r.buckets.cost = measure_bucket_cost(*r.sum, *r.comm, r.side, r.options.logical_ranks);
  }
  r.lay_out();
  r.thread = std::thread([&r] { r.run(); });
}

GradientReducer::~GradientReducer() {
  for (at::Tensor& parameter : impl_->parameters) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
    parameter.mutable_grad().reset();
  }
  {
    const std::lock_guard lock(impl_->shared.mutex);
    impl_->shared.leaving = true;
    impl_->shared.changed.notify_all();
  }
  impl_->thread.join();
}

const FlatLayout& GradientReducer::layout() const { return impl_->layout; }
size_t GradientReducer::bucket_count() const { return impl_->buckets.ranges.size(); }
double GradientReducer::exposed_s() const { return impl_->exposed_s; }
double GradientReducer::exposed_update_s() const { return impl_->exposed_update_s; }
std::string GradientReducer::transport() const { return impl_->sum->transport(); }
const BucketCost& GradientReducer::cost() const { return impl_->buckets.cost; }
at::Tensor GradientReducer::gradients() const { return impl_->sum->buffer(0).slice(0, 0, impl_->layout.numel()); }
at::Tensor GradientReducer::extra() const {
  return impl_->sum->buffer(0).slice(0, impl_->layout.numel(), impl_->sum->numel());
}

void GradientReducer::begin_step(const CanonicalTree& tree, OnSummed on_summed) {
  Impl& r = *impl_;
  r.sum->begin(tree);
  r.step.on_summed = std::move(on_summed);
  r.step.next_pass = 0;
  r.step.next_bucket = 0;
  r.step.filling = false;
  r.step.ready.clear();
  const std::lock_guard lock(r.shared.mutex);
  r.shared.summed = 0;
  r.shared.handling.clear();
}

void GradientReducer::begin_leaf(int64_t logical_rank) {
  Impl& r = *impl_;
  check(r.step.next_pass < r.sum->plan().passes.size() && r.pass().leaf == logical_rank,
        "a process runs the present logical ranks that it carries, in order");
  r.sum->buffer(r.pass().buffer).zero_();
  r.point_gradients_to(r.pass().buffer);
}

at::Tensor GradientReducer::leaf_gradients() const {
  return impl_->sum->buffer(impl_->pass().buffer).slice(0, 0, impl_->layout.numel());
}

void GradientReducer::begin_pass(bool last_of_leaf) {
  Impl& r = *impl_;
  r.step.filling = last_of_leaf && r.is_last();
  r.step.mark = nullptr;
  r.step.ready.clear();
  r.step.missing.assign(r.buckets.ranges.size(), 0);
  for (size_t bucket : r.buckets.of) ++r.step.missing[bucket];
  if (r.extra_numel > 0) r.step.missing.back() = 1;
}

std::vector<Mark> GradientReducer::mark_buckets(const std::function<Mark()>& mark,
                                                const std::function<void()>& backward) {
  Impl& r = *impl_;
  begin_pass(false);
  const size_t count = r.buckets.of.back() + 1;
  r.step.marks.assign(count, nullptr);
  r.step.mark = mark;
  backward();
  r.step.mark = nullptr;
  for (size_t bucket = 0; bucket < count; ++bucket)
    if (r.step.missing[bucket] > 0) r.step.marks[bucket] = mark();
  return std::move(r.step.marks);
}

void GradientReducer::replayed(const std::vector<Mark>& filled) {
  Impl& r = *impl_;
  if (filled.empty() || !r.is_last() || !r.sum->overlaps_backward()) return;
  check(r.step.next_bucket == 0 && filled.size() == r.buckets.of.back() + 1,
        "a step's last replay hands over each bucket of this layout once");
  for (const Mark& mark : filled) r.enqueue(r.step.next_bucket++, mark);
}

void GradientReducer::end_leaf(const at::Tensor& extra_floats) {
  Impl& r = *impl_;
  const at::NoGradGuard no_grad;
  if (r.extra_numel > 0) r.sum->buffer(r.pass().buffer).slice(0, r.layout.numel(), r.sum->numel()).copy_(extra_floats);
  for (const FoldPlan::Add& add : r.pass().adds) r.sum->add(add.into, add.from);
  ++r.step.next_pass;
}

void GradientReducer::finish() {
  Impl& r = *impl_;
  check(r.step.next_pass == r.sum->plan().passes.size(), "a process ends a step after all its passes");
  const Clock::time_point began = Clock::now();
  while (r.step.next_bucket < r.buckets.ranges.size())
    r.enqueue(r.step.next_bucket++, r.side.mark());  // also if this process had no pass
  std::unique_lock lock(r.shared.mutex);
  r.shared.changed.wait(lock,
                        [&] { return r.shared.failure != nullptr || r.shared.summed == r.buckets.ranges.size(); });
  if (r.shared.failure == nullptr) {
    wait_for_sums(r.side, *r.comm);
    r.side.join();
  }
  double update_s = 0;
  for (const auto& [begin, end] : r.shared.handling)
    if (end > began) update_s += std::chrono::duration<double>(end - std::max(begin, began)).count();
  r.exposed_s += std::chrono::duration<double>(Clock::now() - began).count() - update_s;
  r.exposed_update_s += update_s;
  if (r.shared.failure != nullptr) std::rethrow_exception(r.shared.failure);
  r.point_gradients_to(0);
}

std::vector<size_t> GradientReducer::ready_order() const {
  const Impl& r = *impl_;
  std::vector<size_t> order = r.step.ready;
  if (order.empty()) return order;
  for (size_t place = 0; place < r.parameters.size(); ++place)
    if (std::find(r.step.ready.begin(), r.step.ready.end(), place) == r.step.ready.end()) order.push_back(place);
  return order;
}

void GradientReducer::reorder(std::vector<at::Tensor> parameters) {
  Impl& r = *impl_;
  r.parameters = std::move(parameters);
  const int64_t before = r.layout.numel();
  r.layout = FlatLayout(r.parameters);
  check(r.layout.numel() == before, "another order of the same tensors takes the same room");
  r.lay_out();
}

void GradientReducer::replace(std::vector<at::Tensor> parameters, int64_t extra_numel) {
  Impl& r = *impl_;
  r.views.clear();
  r.sum.reset();
  r.parameters = std::move(parameters);
  r.layout = FlatLayout(r.parameters);
  r.extra_numel = extra_numel;
  r.sum = r.make_sum();
  r.lay_out();
}

}  // namespace dtrain
