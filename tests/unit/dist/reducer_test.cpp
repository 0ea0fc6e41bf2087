#include "dtrain/dist/reducer.hpp"

#include <ATen/ATen.h>

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
