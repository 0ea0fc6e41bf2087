#pragma once
#include <cstdint>

#include "dtrain/device/device.hpp"
#include "dtrain/dist/communicator.hpp"
#include "dtrain/dist/options.hpp"

namespace at {
class Tensor;
}

namespace dtrain::test {

// Checks that run on every rank of a communicator of any kind: threads in the unit tests, mpirun in tests/mpi.
// Each throws std::runtime_error with a sentence if something is wrong (Catch's macros work in one thread only).

/// Broadcast, gathers, any, largest, barrier.
void check_collectives(Communicator& comm);

/// Every reduction over V leaves of adversarial floats, some absent, for sizes from 1 to several pieces: canonical
/// equals the tree evaluated by one rank, bit for bit; the others are right to rounding and equal on all ranks.
void check_bucket_sum(Communicator& comm, Reduction reduction, int64_t logical_ranks);

/// The sum of V leaves of those adversarial floats, [numel], as this reduction and transport give it.
at::Tensor sum_of_leaves(Communicator& comm, Reduction reduction, int64_t logical_ranks, int64_t numel);

/// GradientReducer over a small graph equals the tree of the leaves' own gradients, bit for bit, over several steps
/// with leaves coming and going. `device`: of the parameters.
void check_reducer(Communicator& comm, int64_t logical_ranks, double bucket_mb, const Device& device = {});

}  // namespace dtrain::test
