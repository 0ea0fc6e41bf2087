#include "dtrain/base/host.hpp"

#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("core numbers are told as ranges") {
  CHECK(core_ranges({0, 1, 2, 3, 8}) == "0-3,8");
  CHECK(core_ranges({5}) == "5");
  for (const std::vector<int>& cores : {std::vector<int>{}, {5}, {0, 1, 2, 3, 8}, {1, 3, 10, 11}})
    CHECK(read_core_ranges(core_ranges(cores)) == cores);
  CHECK_FALSE(bound_cores().empty());
}
