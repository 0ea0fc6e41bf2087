#include "dtrain/dist/reducer.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "dtrain/base/time.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "support/catch.hpp"
#include "support/rank_checks.hpp"

using namespace dtrain;

TEST_CASE("reduced gradients have the tree's bits for any number of ranks and any bucket size") {
  for (int n = 1; n <= 4; ++n)
    for (int64_t v : {4, 5, 8})
      for (double bucket_mb : {0.0, 0.001}) {
        INFO("ranks " << n << " of " << v << ", bucket " << bucket_mb);
        CHECK_NOTHROW(run_ranks(n, [&](Communicator& comm) { test::check_reducer(comm, v, bucket_mb); }));
      }
}

TEST_CASE("a flat layout gives views with their own shape and strides, without overlap") {
  const at::Tensor kernel = at::randn({4, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor bias = at::randn({5});
  const FlatLayout layout({kernel, bias});
  const at::Tensor flat = at::zeros({layout.numel()});
  layout.view(flat, 0).copy_(kernel);
  layout.view(flat, 1).copy_(bias);
  CHECK(at::equal(layout.view(flat, 0), kernel));
  CHECK(at::equal(layout.view(flat, 1), bias));
  CHECK(layout.view(flat, 0).strides() == kernel.strides());
  CHECK(layout.range(1).begin % 64 == 0);
  CHECK(layout.range(1).end == layout.numel());
}

TEST_CASE("gradients are ready in the order in which backward reached them; those that it did not reach come last") {
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < 4; ++i) parameters.push_back(at::ones({3}).requires_grad_(true));
  Trace trace(false);
  GradientReducer reducer(parameters, 0, make_serial_communicator(), {}, trace);
  CHECK(reducer.ready_order().empty());
  reducer.begin_step(CanonicalTree({true}), {});
  reducer.begin_leaf(0);
  reducer.begin_pass(true);
  (parameters[3].exp() * parameters[1]).sum().backward();
  reducer.end_leaf({});
  reducer.finish();
  CHECK(reducer.ready_order() == std::vector<size_t>{1, 3, 0, 2});
}

TEST_CASE("a pass that is replayed hands over its buckets where they were filled when it was recorded") {
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < 4; ++i) parameters.push_back(at::full({300}, 2.0).requires_grad_(true));
  Trace trace(false);
  GradientReducer reducer(parameters, 1, make_serial_communicator(), {.bucket_mb = 0.001}, trace);
  const auto backward = [&] { (parameters[0] * parameters[1] * parameters[3]).sum().backward(); };
  REQUIRE(reducer.bucket_count() == 5);
  std::atomic<int> summed{0};
  const CanonicalTree tree({true});
  reducer.begin_step(tree, [&](Range) { ++summed; });
  reducer.begin_leaf(0);
  int marked = 0;
  const std::vector<Mark> filled = reducer.mark_buckets([&marked] { return ++marked, nullptr; }, backward);
  CHECK(marked == 4);  // of these one that backward does not reach
  CHECK(filled.size() == 4);
  CHECK(summed == 0);
  reducer.replayed(filled);
  for (const Stopwatch watch; summed < 4 && watch.seconds() < 60;) std::this_thread::yield();
  CHECK(summed == 4);
  reducer.end_leaf(at::full({1}, 7.0));
  reducer.finish();
  CHECK(summed == 4);
  CHECK(reducer.extra().item<float>() == 7);
  for (const size_t place : {0, 1, 3})
    CHECK(reducer.layout().view(reducer.gradients(), place).eq(4).all().item<bool>());
  CHECK(reducer.layout().view(reducer.gradients(), 2).eq(0).all().item<bool>());
}

TEST_CASE("a replay that is not the step's last pass sums nothing") {
  const at::Tensor parameter = at::ones({3}).requires_grad_(true);
  Trace trace(false);
  GradientReducer reducer({parameter}, 0, make_serial_communicator(), {.logical_ranks = 2}, trace);
  std::atomic<int> summed{0};
  reducer.begin_step(CanonicalTree({true, true}), [&](Range) { ++summed; });
  for (const int leaf : {0, 1}) {
    reducer.begin_leaf(leaf);
    const std::vector<Mark> filled = reducer.mark_buckets([] { return nullptr; }, [&] { parameter.sum().backward(); });
    if (leaf == 0) reducer.replayed(filled);
    reducer.end_leaf({});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for what should not be
  CHECK(summed == 0);
  reducer.finish();
  CHECK(summed == 1);
  CHECK(reducer.gradients().slice(0, 0, 3).eq(2).all().item<bool>());
}

TEST_CASE("what goes wrong with a sum while the end of a step waits for it ends the step") {
  const at::Tensor parameter = at::ones({3}).requires_grad_(true);
  Trace trace(false);
  GradientReducer reducer({parameter}, 0, make_serial_communicator(), {}, trace);
  reducer.begin_step(CanonicalTree({true}), [](Range) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // finish() then waits
    throw std::runtime_error("a sum that cannot be");
  });
  reducer.begin_leaf(0);
  reducer.begin_pass(true);
  parameter.sum().backward();
  reducer.end_leaf({});
  CHECK_THROWS_WITH(reducer.finish(), "a sum that cannot be");
}
