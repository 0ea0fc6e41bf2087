#pragma once
#include <cstdint>

#include "dtrain/dist/communicator.hpp"

namespace dtrain::test {

// Checks that run on every rank of a communicator, whatever carries it: threads in the unit tests, mpirun in tests/mpi.
// Each throws std::runtime_error with a sentence when something is wrong (Catch's macros belong to one thread).

/// Broadcast, gathers, any, largest, barrier.
void check_collectives(Communicator& comm);

/// canonical_sum of V leaves of adversarial floats on these ranks equals the tree evaluated in one place, bit for bit,
/// with some leaves absent; for sizes from 1 to beyond one slice per rank.
void check_canonical_sum(Communicator& comm, int64_t logical_ranks);

/// GradientReducer over a small graph equals the tree of the leaves' own gradients, bit for bit, over several steps
/// with leaves coming and going.
void check_reducer(Communicator& comm, int64_t logical_ranks, double bucket_mb);

}  // namespace dtrain::test
