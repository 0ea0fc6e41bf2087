#include "dtrain/optim/loss_watch.hpp"

#include <cmath>

#include "support/catch.hpp"

using namespace dtrain;

// The step after which the loss has run away, counted from 1; 0: never.
static int64_t runs_away(LossWatch watch, int64_t steps, int64_t steps_per_epoch, double frequencies_loss,
                         double (*loss)(int64_t step)) {
  for (int64_t step = 1; step <= steps; ++step)
    if (watch.note(loss(step), frequencies_loss, steps_per_epoch)) return step;
  return 0;
}

TEST_CASE("a loss runs away when its mean over 100 steps is above 1,000 times the larger of its first two measures") {
  constexpr double kFrequencies = 0.7;
  const auto grows_after = [](int64_t step) { return step == 1 ? 2.0 : step <= 150 ? 1.0 : 1e9; };
  CHECK(runs_away({}, 400, 1000, kFrequencies, grows_after) == 200);
  const auto below = [](int64_t step) { return step == 1 ? 2.0 : 1999.0; };
  CHECK(runs_away({}, 400, 1000, kFrequencies, below) == 0);
  const auto above = [](int64_t step) { return step == 1 ? 2.0 : 2021.0; };
  CHECK(runs_away({}, 400, 1000, kFrequencies, above) == 100);
  // A network that starts from good weights has a small first loss: then the frequencies count.
  const auto good_start = [](int64_t step) { return step == 1 ? 1e-6 : 0.5; };
  CHECK(runs_away({}, 400, 1000, kFrequencies, good_start) == 0);
  CHECK(runs_away({}, 400, 1000, 0, good_start) == 100);
  const auto one_spike = [](int64_t step) { return step == 50 ? 1e5 : 1.0; };
  CHECK(runs_away({}, 400, 1000, 2, one_spike) == 0);
}

TEST_CASE(
    "where an epoch is shorter, its steps are judged; their mean may be infinite, and a start of 0 judges nothing") {
  const auto huge = [](int64_t step) { return step == 1 ? 1.0 : 1e30; };
  CHECK(runs_away({}, 20, 6, 0.7, huge) == 6);
  CHECK(runs_away({}, 20, 1, 0.7, huge) == 2);
  const auto endless = [](int64_t step) { return step == 1 ? 1.0 : 1.7e308; };
  CHECK(runs_away({}, 200, 1000, 0.7, endless) == 100);
  const auto nothing_first = [](int64_t step) { return step == 1 ? 0.0 : 1.0; };
  CHECK(runs_away({}, 200, 10, 0, nothing_first) == 0);
}

TEST_CASE("what is watched goes on from its three numbers: the same answer with a stop between any two steps") {
  const auto loss = [](int64_t step) { return step == 1 ? 0.5 : step < 130 ? 3.0 : 1e7; };
  for (const int64_t stop : {1, 37, 99, 100, 101, 150}) {
    INFO(stop);
    LossWatch before;
    for (int64_t step = 1; step <= stop; ++step) CHECK_FALSE(before.note(loss(step), 0.7, 500));
    CHECK(before.steps == stop % LossWatch::kMostSteps);
    LossWatch after;
    after.first = before.first;
    after.sum = before.sum;
    after.steps = before.steps;
    int64_t found = 0;
    for (int64_t step = stop + 1; step <= 400 && found == 0; ++step)
      if (after.note(loss(step), 0.7, 500)) found = step;
    CHECK(found == 200);
  }
}
