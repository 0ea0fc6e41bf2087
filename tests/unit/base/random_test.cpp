#include "dtrain/base/random.hpp"

#include <algorithm>
#include <cmath>

#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("the same key gives the same numbers, another key others") {
  KeyedRandom a(7, Purpose::dropout, 3, 4);
  KeyedRandom b(7, Purpose::dropout, 3, 4);
  KeyedRandom other_b(7, Purpose::dropout, 3, 5);
  KeyedRandom other_a(7, Purpose::dropout, 4, 4);
  KeyedRandom other_purpose(7, Purpose::augmentation, 3, 4);
  KeyedRandom other_seed(8, Purpose::dropout, 3, 4);
  const uint64_t first = a.next64();
  CHECK(b.next64() == first);
  for (KeyedRandom* other : {&other_a, &other_b, &other_purpose, &other_seed}) CHECK(other->next64() != first);
}

TEST_CASE("fill gives what one by one would, wherever it starts") {
  for (int ahead = 0; ahead < 6; ++ahead) {
    KeyedRandom one(1, Purpose::dropout);
    KeyedRandom filled(1, Purpose::dropout);
    for (int i = 0; i < ahead; ++i) CHECK(one.next32() == filled.next32());
    std::vector<uint32_t> out(11);
    filled.fill(out);
    for (uint32_t value : out) CHECK(value == one.next32());
    CHECK(filled.next32() == one.next32());
  }
}

TEST_CASE("the stream never changes: these numbers are part of every run's bits") {
  KeyedRandom random(2017, Purpose::epoch_order, 5, 6);
  CHECK(random.next32() == 0xd3d8a53a);
}

TEST_CASE("uniform and normal numbers have their moments") {
  KeyedRandom random(11, Purpose::initial_weights);
  const int n = 200000;
  double sum = 0;
  double sum_of_squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    sum += x;
    sum_of_squares += x * x;
  }
  CHECK(std::abs(sum / n) < 0.01);
  CHECK(std::abs(sum_of_squares / n - 1) < 0.02);
  double low = 1;
  double high = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.uniform();
    low = std::min(low, x);
    high = std::max(high, x);
  }
  CHECK(low >= 0);
  CHECK(low < 1e-4);
  CHECK(high < 1);
  CHECK(high > 1 - 1e-4);
}

TEST_CASE("a permutation holds every index once and depends on seed and epoch") {
  const auto a = keyed_permutation(1000, 1, Purpose::epoch_order, 0);
  auto sorted = a;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < 1000; ++i) CHECK(sorted[static_cast<size_t>(i)] == i);
  CHECK(a == keyed_permutation(1000, 1, Purpose::epoch_order, 0));
  CHECK(a != keyed_permutation(1000, 1, Purpose::epoch_order, 1));
  CHECK(a != keyed_permutation(1000, 2, Purpose::epoch_order, 0));
}
