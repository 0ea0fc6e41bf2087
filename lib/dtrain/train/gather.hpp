#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "dtrain/dist/communicator.hpp"

namespace dtrain {

/// Rows that ranks computed in any grouping, put into the order of the set. A collective: all ranks call it together,
/// with the same `total` and rows of one type and shape; each gets all rows [total, …], on the CPU.
///
/// rows    [m, …] of this rank, on any device; m may be 0, and differ between ranks
/// places  for each of them its place 0 … total-1 in the set
/// Throws InternalError when a place is missing or comes twice: every sample is counted exactly once.
at::Tensor gather_rows(Communicator& comm, const at::Tensor& rows, const std::vector<int64_t>& places, int64_t total);

}  // namespace dtrain
