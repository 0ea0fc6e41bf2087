#include "dtrain/train/gather.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/collectives.hpp"

namespace dtrain {

at::Tensor gather_rows(Communicator& comm, const at::Tensor& rows, const std::vector<int64_t>& places, int64_t total) {
  check(rows.size(0) == static_cast<int64_t>(places.size()), "each row has a place");
  const at::Tensor all_places = at::cat(all_gather(comm, at::tensor(places, at::kLong)));
  const at::Tensor all_rows = at::cat(all_gather(comm, rows.cpu()));
  check(all_places.size(0) == total, "all ranks together have one row per sample");
  const at::Tensor order = all_places.argsort();
  check(at::equal(all_places.index_select(0, order), at::arange(total, at::kLong)),
        "every sample is counted exactly once");
  return all_rows.index_select(0, order);
}

}  // namespace dtrain
