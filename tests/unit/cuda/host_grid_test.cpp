#include "unit/cuda/host_grid.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"
#include "unit/cuda/planted_kernels.hpp"

using namespace dtrain;
using test::Fault;

// Of 1 … 256, which is exact in any order of additions.
static double planted_sum(Fault fault) {
  std::vector<double> values(256);
  std::iota(values.begin(), values.end(), 1);
  double sum = 0;
  test::planted_sum(fault, values.data(), &sum);
  return sum;
}

static constexpr double kSum = 256 * 257 / 2;

TEST_CASE("blocks and threads all run, once each, in an order of their own") {
  std::vector<int> runs(size_t{40} * 33);
  std::vector<unsigned> blocks;
  test::run_grid(40, 33, [&] {
    const test::PlaceInGrid place = test::place_in_grid();
    runs[place.block_index.x * place.block.x + place.thread_index.x] += static_cast<int>(place.grid.x);
    if (place.thread_index.x == 0) blocks.push_back(place.block_index.x);
  });
  CHECK(runs == std::vector<int>(runs.size(), 40));
  CHECK_FALSE(std::is_sorted(blocks.begin(), blocks.end()));
}

TEST_CASE("a kernel that uses its barriers and shared memory rightly has the right sum every time") {
  for (int i = 0; i < 20; ++i) CHECK(planted_sum(Fault::none) == kSum);
}

TEST_CASE("a kernel that reads a word of shared memory that nobody set never has the right sum") {
  for (int i = 0; i < 20; ++i) CHECK_FALSE(planted_sum(Fault::word_not_set) == kSum);
}

TEST_CASE("a kernel with a missing barrier or a wrong index never has the right sum") {
  if (test::kThreadSanitized) return test::skip("ThreadSanitizer ends the test with a report of the race");
  for (const Fault fault : {Fault::no_barrier_after_writing, Fault::no_barrier_between_levels, Fault::index_off_by_one})
    for (int i = 0; i < 20; ++i) CHECK_FALSE(planted_sum(fault) == kSum);
}

TEST_CASE("a barrier that some threads of a block never reach is an error, and the next kernel runs") {
  CHECK_THROWS_AS(planted_sum(Fault::barrier_of_some_threads), InternalError);
  CHECK(planted_sum(Fault::none) == kSum);
}
