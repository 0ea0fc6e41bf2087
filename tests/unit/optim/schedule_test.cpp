#include "dtrain/optim/schedule.hpp"

#include <cmath>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"

using namespace dtrain;

static Duration epochs(double n) { return {n, Duration::Unit::epochs}; }

TEST_CASE("the four scaling rules") {
  CHECK(Schedule::rank_factor(RankScaling::linear, 8) == 8);
  CHECK(Schedule::rank_factor(RankScaling::sqrt, 16) == 4);
  CHECK(Schedule::rank_factor(RankScaling::two_thirds, 8) == Approx(4));
  CHECK(Schedule::rank_factor(RankScaling::none, 8) == 1);
}

TEST_CASE("warmup rises from the base rate to the scaled rate by fractional epoch") {
  ScheduleOptions options;
  options.warmup = epochs(2);
  const Schedule schedule(options, 0.1, 8, 10, 5);
  CHECK(schedule.rate(0) == Approx(0.1));
  CHECK(schedule.rate(10) == Approx(0.1 * (1 + 1.0 * 7 / 2)));
  CHECK(schedule.rate(5) == Approx(0.1 * (1 + 0.5 * 7 / 2)));
  CHECK(schedule.rate(20) == Approx(0.8));
  CHECK(schedule.rate(49) == Approx(0.8));
  CHECK_NOTHROW(Schedule(options, 0.1, 8, 10, 2));  // as long as the run
  options.warmup = {20, Duration::Unit::steps};
  CHECK(Schedule(options, 0.1, 8, 10, 5).rate(10) == Approx(schedule.rate(10)));
}

TEST_CASE("a warmup that cannot be is refused") {
  ScheduleOptions options;
  options.warmup = epochs(6);
  CHECK_THROWS_AS(Schedule(options, 0.1, 1, 10, 5), ConfigError);
  options.warmup = {30, Duration::Unit::seconds};
  CHECK_THROWS_AS(Schedule(options, 0.1, 1, 10, 5), ConfigError);
}

TEST_CASE("step, multistep and cosine decay the scaled rate") {
  ScheduleOptions options;
  options.decay.name = DecayName::step;
  options.decay.every = epochs(2);
  options.decay.factor = 0.5;
  const Schedule step(options, 0.1, 2, 10, 8);
  CHECK(step.rate(19) == Approx(0.2));
  CHECK(step.rate(20) == Approx(0.1));
  CHECK(step.rate(40) == Approx(0.05));

  options.decay.name = DecayName::multistep;
  options.decay.at = {epochs(3), {55, Duration::Unit::steps}};
  const Schedule multistep(options, 0.1, 2, 10, 8);
  CHECK(multistep.rate(29) == Approx(0.2));
  CHECK(multistep.rate(30) == Approx(0.1));
  CHECK(multistep.rate(54) == Approx(0.1));
  CHECK(multistep.rate(55) == Approx(0.05));

  options.decay = {};
  options.decay.name = DecayName::cosine;
  options.decay.final = 0.1;
  options.warmup = epochs(2);
  const Schedule cosine(options, 0.1, 2, 10, 10);
  CHECK(cosine.rate(20) == Approx(0.2));
  CHECK(cosine.rate(60) == Approx(0.2 * (0.1 + 0.9 * 0.5)));
  CHECK(cosine.rate(100) == Approx(0.02));
}

TEST_CASE(
    "plateau reduces after more than `patience` epochs without improvement, not during warmup, and ignores the "
    "undefined") {
  ScheduleOptions options;
  options.decay.name = DecayName::plateau;
  options.decay.patience = 1;
  options.decay.factor = 0.1;
  options.warmup = epochs(1);
  Schedule schedule(options, 0.1, 2, 10, 10);
  CHECK_FALSE(schedule.end_epoch(10, 0.01));  // warmup: not even noted as best
  CHECK_FALSE(schedule.end_epoch(20, 0.5));
  CHECK_FALSE(schedule.end_epoch(30, 0.6));
  CHECK_FALSE(schedule.end_epoch(40, std::nullopt));
  CHECK_FALSE(schedule.end_epoch(50, std::nan("")));
  CHECK(schedule.rate(50) == Approx(0.2));
  CHECK(schedule.end_epoch(60, 0.55));
  CHECK(schedule.rate(60) == Approx(0.02));
  CHECK_FALSE(schedule.end_epoch(70, 0.4));

  Schedule other(options, 0.1, 2, 10, 10);
  other.restore(schedule.state());
  CHECK(other.rate(70) == schedule.rate(70));
  CHECK_FALSE(other.end_epoch(80, 0.45));
  CHECK(other.end_epoch(90, 0.45));
  CHECK(other.rate(90) == Approx(0.002));

  options.decay.monitor_is_max = true;
  Schedule rising(options, 0.1, 1, 10, 10);
  CHECK_FALSE(rising.end_epoch(20, 0.5));
  CHECK_FALSE(rising.end_epoch(30, 0.6));
  CHECK_FALSE(rising.end_epoch(40, 0.7));
  CHECK(rising.state().bad_epochs == 0);
}

TEST_CASE("on a plateau a tie is no improvement, whichever way is up") {
  for (const bool larger_is_better : {false, true}) {
    ScheduleOptions options;
    options.decay.name = DecayName::plateau;
    options.decay.monitor_is_max = larger_is_better;
    options.decay.patience = 1;
    Schedule schedule(options, 0.1, 1, 10, 10);
    CHECK_FALSE(schedule.end_epoch(10, 0.5));
    CHECK_FALSE(schedule.end_epoch(20, 0.5));
    CHECK(schedule.end_epoch(30, 0.5));
  }
}
