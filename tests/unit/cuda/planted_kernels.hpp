#pragma once

namespace dtrain::test {

/// What is wrong with a kernel.
enum class Fault {
  none,
  no_barrier_after_writing,
  no_barrier_between_levels,
  barrier_of_some_threads,
  index_off_by_one,
  word_not_set,  ///< of shared memory
};

/// *sum = Σ values[0] … values[255], by one block, with this fault.
void planted_sum(Fault fault, const double* values, double* sum);

}  // namespace dtrain::test
