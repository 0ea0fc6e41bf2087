#pragma once
// Catch2 2.13 (Debian 12) and 3.x under one name.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

namespace dtrain::test {

/// Counts the current test as skipped, with the reason. A program in which every test was skipped exits with 4,
/// which CTest counts as a skip. With DTRAIN_REQUIRE_GPU=1 or DTRAIN_REQUIRE_ALL=1 a skip is a failure instead.
/// The caller returns from the test case right after it.
void skip(const char* reason);

}  // namespace dtrain::test
