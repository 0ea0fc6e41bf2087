#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "dtrain/device/flat_math.hpp"
#include "support/catch.hpp"

using namespace dtrain;

static std::vector<float> random_values(size_t count) {
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator) * std::exp2(static_cast<float>(generator() % 40) - 20);
  return values;
}

static double sum_of_squares(const std::vector<float>& values) {
  return host_math().sums_of_squares(values.data(), {{0, static_cast<int64_t>(values.size())}}).front();
}

// The order of additions described in host_math.cpp, one element after another.
static double in_sixteen_lanes(const std::vector<float>& values) {
  std::array<double, 16> lanes{};
  for (size_t i = 0; i < values.size(); ++i) {
    const double square = static_cast<double>(values[i]) * static_cast<double>(values[i]);
    lanes[i % 16] = lanes[i % 16] + square;
  }
  for (const size_t half : {8U, 4U, 2U, 1U})
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] = lanes[lane] + lanes[lane + half];
  return lanes[0];
}

TEST_CASE("a sum of squares has the promised bits at every length") {
  for (size_t count = 0; count < 100; ++count)
    CHECK(sum_of_squares(random_values(count)) == in_sixteen_lanes(random_values(count)));
  const std::vector<float> many = random_values(100'003);
  CHECK(sum_of_squares(many) == in_sixteen_lanes(many));
}

TEST_CASE("a sum of squares is exact to the last digits, and does not overflow") {
  const std::vector<float> many = random_values(1'000'001);
  long double exact = 0;
  for (const float value : many) exact += static_cast<long double>(value) * static_cast<long double>(value);
  CHECK(sum_of_squares(many) == Approx(static_cast<double>(exact)).epsilon(1e-13));
  const double most = std::numeric_limits<float>::max();
  CHECK(sum_of_squares(std::vector<float>(64, std::numeric_limits<float>::max())) == 64 * most * most);
}

TEST_CASE("a sum of squares is not finite exactly when a value is not") {
  for (size_t place = 0; place < 35; ++place)
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> values = random_values(35);
      CHECK(std::isfinite(sum_of_squares(values)));
      values[place] = -bad;
      CHECK_FALSE(std::isfinite(sum_of_squares(values)));
    }
}
