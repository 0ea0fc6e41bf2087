#include "dtrain/train/batch_search.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "support/catch.hpp"

using namespace dtrain;

namespace {

/// A process that needs fixed_mb and picture_mb of each picture, gap_mb more for every other batch; it is ended beyond
/// limit_mb. Keeps the batches that were tried.
struct Machine {
  double fixed_mb = 100;
  double picture_mb = 10;
  double gap_mb = 0;
  double limit_mb = 1000;
  int64_t longest = 1'000'000;  ///< larger ones are ended for their time
  std::vector<int64_t> tried = {};

  double need_mb(int64_t batch) const {
    return fixed_mb + picture_mb * static_cast<double>(batch) + (batch % 2 == 0 ? gap_mb : 0);
  }
  int64_t largest(int64_t most) const {
    int64_t batch = most;
    while (batch > 0 && (need_mb(batch) > limit_mb || batch > longest)) --batch;
    return batch;
  }
  BatchFound find(double guessed_fixed_mb, int64_t first, int64_t most) {
    tried.clear();
    return find_largest_batch({.room_mb = limit_mb, .fixed_mb = guessed_fixed_mb, .first = first, .most = most},
                              [this](int64_t batch) -> std::optional<double> {
                                tried.push_back(batch);
                                if (need_mb(batch) > limit_mb || batch > longest) return std::nullopt;
                                return need_mb(batch);
                              });
  }
};

}  // namespace

TEST_CASE("on a line the largest batch is found in three trials, whatever was guessed of it") {
  Machine machine;
  for (const double guessed : {0.0, 50.0, 100.0, 200.0})
    for (const int64_t first : {20, 40, 45, 60}) {
      CAPTURE(guessed, first);
      const BatchFound found = machine.find(guessed, first, 1000);
      CHECK(found.batch <= 90);
      CHECK(found.batch >= 88);  // one more would not gain a thirty-second
      CHECK(found.need_mb == machine.need_mb(found.batch));
      CHECK(found.trials == static_cast<int64_t>(machine.tried.size()));
      CHECK(found.trials <= 4);
      CHECK_FALSE(found.at_most);
    }
}

TEST_CASE("a small batch is found exactly, for every number of pictures that fits") {
  for (int64_t fits = 1; fits <= 24; ++fits)
    for (const int64_t first : {int64_t{1}, fits / 2 + 1, 2 * fits})
      for (const double gap : {0.0, 7.0}) {
        Machine machine{.fixed_mb = 200, .picture_mb = 33, .gap_mb = gap};
        machine.limit_mb = machine.need_mb(fits) + 5;
        CAPTURE(fits, first, gap);
        const BatchFound found = machine.find(150, first, 1000);
        CHECK(found.batch <= machine.largest(1000));
        CHECK(found.batch >= machine.largest(1000) - (gap > 0 ? 1 : 0));  // every other batch lies off the line
        CHECK(found.trials <= 8);
      }
}

TEST_CASE("the search ends at the most that is worth having, and then says so") {
  Machine machine;
  const BatchFound found = machine.find(100, 64, 12);
  CHECK(found.batch == 12);
  CHECK(found.at_most);
  CHECK(found.trials == 1);
  CHECK(machine.find(100, 3, 12).batch == 12);
  CHECK(machine.find(100, 1, 1).batch == 1);
}

TEST_CASE("where not even one picture fits the answer is none") {
  Machine machine{.limit_mb = 105};
  const BatchFound found = machine.find(100, 16, 1000);
  CHECK(found.batch == 0);
  CHECK(machine.tried.back() == 1);
}

TEST_CASE("what is given was tried and fits, on lines and steps of all kinds, in a few trials") {
  for (const double fixed : {0.0, 80.0, 600.0})
    for (const double picture : {0.7, 3.0, 41.0, 300.0})
      for (const double gap : {0.0, 25.0})
        for (const int64_t longest : {int64_t{1'000'000}, int64_t{50}})
          for (const int64_t first : {1, 8, 64}) {
            Machine machine{.fixed_mb = fixed, .picture_mb = picture, .gap_mb = gap, .longest = longest};
            const BatchFound found = machine.find(120, first, 700);
            const int64_t largest = machine.largest(700);
            CAPTURE(fixed, picture, gap, longest, first, largest);
            CHECK(found.batch <= largest);
            CHECK(static_cast<double>(found.batch) >= std::floor(0.85 * static_cast<double>(largest)));
            CHECK(found.trials <= 12);
            if (found.batch > 0)
              CHECK(std::find(machine.tried.begin(), machine.tried.end(), found.batch) != machine.tried.end());
          }
}
