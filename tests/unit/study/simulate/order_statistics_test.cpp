#include "dtrain/study/simulate/order_statistics.hpp"

#include <cmath>
#include <numbers>

#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("the expected maximum of normal values is that of tables") {
  CHECK(expected_maximum(1) == 0);
  CHECK(expected_maximum(2) == Approx(1 / std::sqrt(std::numbers::pi)).epsilon(1e-6));
  CHECK(expected_maximum(3) == Approx(1.5 / std::sqrt(std::numbers::pi)).epsilon(1e-6));
  CHECK(expected_maximum(8) == Approx(1.423600).epsilon(1e-6));     // Harter 1961
  CHECK(expected_maximum(100) == Approx(2.507594).epsilon(1e-6));   // Harter 1961
  CHECK(expected_maximum(65536) == Approx(4.29113).epsilon(1e-5));  // by quadrature with ten times the points
  for (int64_t n = 1; n < 1 << 20; n *= 2) CHECK(expected_maximum(2 * n) > expected_maximum(n));
}

TEST_CASE("a deviation that one pause of the machine does not change") {
  std::vector<double> steps;
  for (int i = 0; i < 100; ++i) steps.push_back(i < 50 ? 1.0 : 1.0 + 0.001 * (i - 49));
  const double quiet = robust_deviation(steps);
  CHECK(quiet == Approx((0.046 - 0.001) / 1.6449));
  steps.back() = 60;
  CHECK(robust_deviation(steps) == quiet);
  CHECK(robust_deviation({3}) == 0);
  CHECK(robust_deviation({}) == 0);
}
