#include "dtrain/train/gather.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("rows are put into the order of the set for any number of ranks, empty ones too") {
  for (int n = 1; n <= 4; ++n)
    CHECK_NOTHROW(run_ranks(n, [n](Communicator& comm) {
      std::vector<int64_t> places;
      for (int64_t i = 6; i >= 0; --i)
        if (i % 3 == comm.rank() || (n < 3 && i % 3 >= n && comm.rank() == 0)) places.push_back(i);
      const at::Tensor rows = at::tensor(places, at::kLong).to(at::kDouble).unsqueeze(1) * 10;
      const at::Tensor all = gather_rows(comm, rows.view({static_cast<int64_t>(places.size()), 1}), places, 7);
      check(at::equal(all.squeeze(1), at::arange(7, at::kDouble) * 10), "rows come in order");
    }));
}

TEST_CASE("a sample that is missing or counted twice is an error") {
  const auto one = make_serial_communicator();
  CHECK_THROWS_AS(gather_rows(*one, at::zeros({2, 1}), {0, 0}, 2), InternalError);
  CHECK_THROWS_AS(gather_rows(*one, at::zeros({1, 1}), {0}, 2), InternalError);
}
