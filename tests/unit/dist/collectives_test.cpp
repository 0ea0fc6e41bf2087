#include "dtrain/dist/collectives.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/message.hpp"
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

TEST_CASE(
    "slices of a gather cover all, are equal but for the last ones, and begin at multiples of 16 bytes of floats") {
  for (int n = 1; n <= 9; ++n)
    for (const int64_t length : {0, 1, 3, 4, 5, 64, 100, 1000, 1024}) {
      INFO(length << " elements, ranks " << n);
      const int64_t whole = slice_of_rank(length, n, 0).size();
      int64_t end = 0;
      for (int rank = 0; rank < n; ++rank) {
        const Range slice = slice_of_rank(length, n, rank);
        CHECK(slice.begin == end);
        CHECK((slice.begin % 4 == 0 || slice.begin == length));
        CHECK((slice.size() == whole || slice.end == length));
        end = slice.end;
      }
      CHECK(end == length);
      if (length % (4 * n) == 0) CHECK(whole * n == length);  // nothing to pad
    }
}

TEST_CASE("the canonical sum has the tree's bits for any number of ranks, also where n does not divide V") {
  for (int n = 1; n <= 5; ++n)
    for (int64_t v : {5, 6, 8, 13}) {
      INFO("ranks " << n << " of " << v);
      CHECK_NOTHROW(run_ranks(n, [&](Communicator& comm) { test::check_bucket_sum(comm, Reduction::canonical, v); }));
    }
}

TEST_CASE("the canonical sum keeps its bits however the ranks lie on hosts") {
  for (const std::vector<int>& host_of :
       std::vector<std::vector<int>>{{0, 1}, {0, 0, 1}, {0, 1, 0, 1}, {0, 0, 0, 1}, {2, 1, 0, 2, 1}, {0, 1, 2, 3, 4}})
    for (int64_t v : {5, 8, 13}) {
      const int n = static_cast<int>(host_of.size());
      INFO("ranks " << n << " of " << v << ", the last on host " << host_of.back());
      CHECK_NOTHROW(run_ranks(
          n, [&](Communicator& comm) { test::check_bucket_sum(comm, Reduction::canonical, v); }, host_of));
    }
}

TEST_CASE("ring, the transport's own and the root's sum are right and equal on all ranks") {
  for (const Reduction reduction : {Reduction::ring, Reduction::fastest, Reduction::root_cpu})
    for (int n = 1; n <= 5; ++n) {
      INFO("ranks " << n << ", reduction " << static_cast<int>(reduction));
      CHECK_NOTHROW(run_ranks(n, [&](Communicator& comm) { test::check_bucket_sum(comm, reduction, 5); }));
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
