#include "dtrain/device/flat_math.hpp"

#include <cmath>
#include <limits>
#include <random>

#include "support/catch.hpp"

using namespace dtrain;

static std::vector<float> noise(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values)
    value = std::ldexp(static_cast<float>(generator() % 2001) - 1000, static_cast<int>(generator() % 30) - 15);
  return values;
}

TEST_CASE("a sum runs its program for every element, over several pieces, into every output") {
  constexpr size_t kCount = 10'007;
  std::vector<std::vector<float>> inputs;
  for (unsigned i = 0; i < 4; ++i) inputs.push_back(noise(kCount, i));
  const std::vector<const float*> pointers = {inputs[0].data(), inputs[1].data(), inputs[2].data(), inputs[3].data()};
  constexpr int kAdd = FlatMath::kAdd;
  std::vector<float> out(kCount);
  std::vector<float> second(kCount);
  const std::vector<int> program = {3, 0, 1, kAdd, kAdd};  // 3 + (0 + 1); 2 is not read
  host_math().sum(program, 3, pointers, {out.data(), second.data()}, kCount);
  for (size_t i = 0; i < kCount; ++i) REQUIRE(out[i] == inputs[3][i] + (inputs[0][i] + inputs[1][i]));
  CHECK(second == out);
  const std::vector<int> copy = {2};
  host_math().sum(copy, 1, pointers, {out.data()}, kCount);
  CHECK(out == inputs[2]);
}

TEST_CASE("a sum may be written over one of its inputs") {
  std::vector<float> a = noise(5000, 8);
  const std::vector<float> before = a;
  const std::vector<float> b = noise(5000, 9);
  const std::vector<int> program = {0, 1, FlatMath::kAdd};
  host_math().sum(program, 2, {a.data(), b.data()}, {a.data()}, 5000);
  for (size_t i = 0; i < a.size(); ++i) REQUIRE(a[i] == before[i] + b[i]);
}

TEST_CASE("the word for a value that is not finite is set by one alone, and never cleared") {
  std::vector<float> weights(33, 1);
  std::vector<float> gradients(33, 0.5F);
  int32_t seen = 0;
  const UpdateSlices slices{33, weights.data(), gradients.data()};
  const UpdateFactors factors{.rate = 0.1F};
  host_math().update(UpdateRule::sgd, slices, factors, &seen);
  CHECK(seen == 0);
  gradients[32] = std::numeric_limits<float>::quiet_NaN();
  host_math().update(UpdateRule::sgd, slices, factors, &seen);
  CHECK(seen == 1);
  gradients[32] = 0;
  weights[32] = 0;
  host_math().update(UpdateRule::sgd, slices, factors, &seen);
  CHECK(seen == 1);
}
