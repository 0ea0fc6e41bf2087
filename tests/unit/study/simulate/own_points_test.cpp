#include "dtrain/study/simulate/own_points.hpp"

#include <cmath>

#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("own steps of 8 logical ranks on 2 processes are predicted within ten percent") {
  REQUIRE(own_points().size() == 3);
  double from_one = 0;
  double from_two = 0;
  for (const OwnPoint& point : own_points()) {
    INFO(point.name << " " << point.error_from_one() << " " << point.error_from_two());
    CHECK(std::abs(point.error_from_one()) < 10);
    CHECK(std::abs(point.error_from_two()) < 10);
    from_one += std::abs(point.error_from_one()) / 3;
    from_two += std::abs(point.error_from_two()) / 3;
  }
  CHECK(own_errors().from_one == Approx(from_one));
  CHECK(own_errors().from_two == Approx(from_two));
}

TEST_CASE("the figures are those of docs/studies.md") {
  const OwnPoint& cnn = own_points().front();
  CHECK(std::lround(1e3 * cnn.step_s) == 218);
  CHECK(std::lround(1e3 * cnn.from_one_s) == 204);
  CHECK(std::lround(1e3 * cnn.from_two_s) == 208);
  CHECK(own_points().back().error_from_two() == Approx(8.7).margin(0.1));
}
