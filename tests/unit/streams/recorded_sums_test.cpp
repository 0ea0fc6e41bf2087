// Gradients of a recorded pass on the GPU of host memory: their sums wait for what fills them, and for no more.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <mutex>

#include "dtrain/device/gpu_module.hpp"
#include "dtrain/dist/reducer.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "support/catch.hpp"
#include "support/host_gpu/streams.hpp"
#include "the_host_gpu.hpp"

using namespace dtrain;
using test::faults;
using test::floats;
using test::the_host_gpu;

namespace {

// How much of the calling thread's training stream comes before what this thread issues now.
size_t work_before() {
  const test::WorkOrder::Clock clock = test::WorkOrder::all().reached(test::HostGpuStreams::all().current());
  return clock.empty() ? 0 : static_cast<size_t>(clock[0]);
}

}  // namespace

TEST_CASE("buckets of a recorded pass are summed while the rest of it runs, with the bits of a plain one") {
  std::vector<at::Tensor> weights;  // in the order in which backward reaches them
  for (int i = 0; i < 4; ++i) weights.push_back(at::full({1000}, 0.5 + i, floats()).requires_grad_(true));
  const at::Tensor x = at::full({1000}, 0.25, floats());
  const auto backward = [&] {
    at::Tensor y = x;
    for (auto weight = weights.rbegin(); weight != weights.rend(); ++weight) y = (y * *weight).sin();
    y.sum().backward();
  };
  Trace trace(false);
  GradientReducer reducer(weights, 2, make_serial_communicator(), {.device = the_host_gpu(), .bucket_mb = 0.001},
                          trace);
  REQUIRE(reducer.bucket_count() == 5);
  const CanonicalTree tree({true});
  const at::Tensor extra = at::full({2}, 9, floats());

  reducer.begin_step(tree, {});
  reducer.begin_leaf(0);
  reducer.begin_pass(true);
  backward();
  reducer.end_leaf(extra);
  reducer.finish();
  const at::Tensor wanted = reducer.gradients().cpu();

  const auto graph = the_host_gpu().module->make_graph();
  std::vector<Mark> filled;
  for (int round = 0; round < 10; ++round) {
    std::mutex mutex;
    std::vector<size_t> before;  // of each bucket's sum
    reducer.begin_step(tree, [&](Range) {
      const std::lock_guard lock(mutex);
      before.push_back(work_before());
    });
    reducer.begin_leaf(0);
    if (round == 0) graph->record([&] { filled = reducer.mark_buckets([&] { return graph->mark(); }, backward); });
    reducer.begin_pass(false);
    graph->replay();
    const size_t all = work_before();
    reducer.replayed(filled);
    reducer.end_leaf(extra);
    reducer.finish();
    REQUIRE(before.size() == 4);
    CHECK(std::is_sorted(before.begin(), before.end()));
    CHECK(before.front() + 10 < all);  // three more weights are to be reached
    CHECK(before.back() <= all);
    CHECK(reducer.gradients().cpu().equal(wanted));
    CHECK(reducer.extra().cpu().eq(9).all().item<bool>());
  }
  CHECK(faults().empty());
}
