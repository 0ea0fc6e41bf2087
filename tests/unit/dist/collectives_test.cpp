#include "dtrain/dist/collectives.hpp"

#include <ATen/ATen.h>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "support/catch.hpp"
#include "support/rank_checks.hpp"

using namespace dtrain;

TEST_CASE("collectives work on 1 to 5 ranks") {
  for (int n = 1; n <= 5; ++n) {
    INFO("ranks " << n);
    CHECK_NOTHROW(run_ranks(n, test::check_collectives));
  }
}

TEST_CASE("the canonical sum has the tree's bits for any number of ranks, also where n does not divide V") {
  for (int n = 1; n <= 5; ++n)
    for (int64_t v : {5, 6, 8, 13}) {
      INFO("ranks " << n << " of " << v);
      CHECK_NOTHROW(run_ranks(n, [&](Communicator& comm) { test::check_canonical_sum(comm, v); }));
    }
}

TEST_CASE("a sum in another order has other bits: the values of these tests tell") {
  const at::Tensor a = at::full({1}, 1e8F);
  const at::Tensor b = at::full({1}, 1.0F);
  CHECK(((a + b) - a).item<float>() != ((a - a) + b).item<float>());
}

TEST_CASE("a failing rank fails the others instead of hanging them") {
  CHECK_THROWS_WITH(run_ranks(3,
                              [](Communicator& comm) {
                                if (comm.rank() == 1) throw DataError("a bad picture");
                                barrier(comm);
                              }),
                    "a bad picture");
}

TEST_CASE("duplicates do not mix their messages") {
  CHECK_NOTHROW(run_ranks(2, [](Communicator& comm) {
    const auto other = comm.duplicate();
    const int peer = 1 - comm.rank();
    at::Tensor first = at::full({1}, 1.0F);
    at::Tensor second = at::full({1}, 2.0F);
    at::Tensor got_second = at::zeros({1});
    at::Tensor got_first = at::zeros({1});
    comm.exchange({{peer, first}}, {});
    other->exchange({{peer, second}}, {{peer, got_second}});
    comm.exchange({}, {{peer, got_first}});
    check(got_first.item<float>() == 1 && got_second.item<float>() == 2, "each channel has its own messages");
  }));
}
