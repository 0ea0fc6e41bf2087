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
  CHECK(layout.range(1).begin % 16 == 0);
  CHECK(layout.range(1).end == layout.numel());
}
