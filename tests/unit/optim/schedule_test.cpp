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

TEST_CASE("a decay after the last step is refused") {
  ScheduleOptions options;
  options.decay.name = DecayName::step;
  options.decay.every = {50, Duration::Unit::steps};
  CHECK_THROWS_AS(Schedule(options, 0.1, 1, 10, 5), ConfigError);
  CHECK_NOTHROW(Schedule(options, 0.1, 1, 10, 6));
  options.decay.name = DecayName::multistep;
  options.decay.at = {{20, Duration::Unit::steps}, {60, Duration::Unit::steps}};
  CHECK_THROWS_AS(Schedule(options, 0.1, 1, 10, 6), ConfigError);
  CHECK_NOTHROW(Schedule(options, 0.1, 1, 10, 7));
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

TEST_CASE("poly falls with a power of the share that is left") {
  ScheduleOptions options;
  options.decay.name = DecayName::poly;
  options.warmup = epochs(2);
  const Schedule usual(options, 0.1, 2, 10, 12);
  CHECK(usual.rate(20) == 0.2);
  CHECK(usual.rate(45) == Approx(0.2 * std::pow(0.75, 0.9)));
  CHECK(usual.rate(120) == 0);
  options.decay.power = 2;
  options.decay.final = 0.1;
  const Schedule steep(options, 0.1, 2, 10, 12);
  CHECK(steep.rate(70) == Approx(0.2 * (0.1 + 0.9 * 0.25)));
  CHECK(steep.rate(120) == Approx(0.02));
}

// At the steps 0 to 13 as torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(T_0=4, T_mult=2, eta_min=0.1) has them
// for the rate 1.
TEST_CASE("the cosine restarts after each period, which may grow") {
  ScheduleOptions options;
  options.decay.name = DecayName::cosine_restarts;
  options.decay.every = {4, Duration::Unit::steps};
  options.decay.stretch = 2;
  options.decay.final = 0.1;
  const Schedule schedule(options, 1, 1, 5, 4);
  const std::vector<double> torch = {1.0,
                                     0.8681980515339464,
                                     0.55,
                                     0.23180194846605365,
                                     1.0,
                                     0.9657457896300791,
                                     0.8681980515339464,
                                     0.7222075445642904,
                                     0.55,
                                     0.3777924554357096,
                                     0.23180194846605365,
                                     0.13425421036992097,
                                     1.0,
                                     0.9913533761814537};
  for (size_t step = 0; step < torch.size(); ++step)
    CHECK(schedule.rate(static_cast<int64_t>(step)) == Approx(torch[step]).epsilon(1e-12));
  options.warmup = epochs(1);
  options.decay.every = epochs(0.8);
  const Schedule later(options, 1, 1, 5, 4);
  for (int64_t step = 0; step < 12; ++step) CHECK(later.rate(step + 5) == Approx(schedule.rate(step)));
}

TEST_CASE("an improvement is larger than min_delta") {
  BestSoFar best;
  for (const double value : {0.5, 0.55, 0.61, 0.65}) best.note(value, true, 0.1);
  CHECK(best.best == 0.61);
  CHECK(best.bad_epochs == 1);
  best = {};
  for (const double value : {0.5, 0.45, 0.41}) best.note(value, false, 0.1);
  CHECK(best.best == 0.5);
  CHECK(best.bad_epochs == 2);
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
  other.resume(schedule.state(), 70, 70);
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

TEST_CASE("once V or the batch has changed, epochs count as epochs and steps as updates") {
  ScheduleOptions options;
  options.warmup = epochs(1);
  options.decay.name = DecayName::cosine;
  const Schedule always(options, 0.1, 8, 5, 10);
  Schedule grown(options, 0.1, 8, 5, 10);  // for three epochs it had V = 4 and ten steps each
  grown.resume({}, 30, 15);
  for (const int64_t step : {0, 1, 7, 34}) CHECK(grown.rate(30 + step) == always.rate(15 + step));

  options.warmup = {8, Duration::Unit::steps};
  Schedule warm(options, 0.1, 8, 5, 10);
  warm.resume({}, 10, 5);  // its eight steps are over, though they would be more than an epoch now
  CHECK(warm.rate(10) == 0.8);
  CHECK(warm.rate(7) < 0.8);

  options.decay.name = DecayName::multistep;
  options.decay.at = {{12, Duration::Unit::steps}};
  Schedule falls(options, 0.1, 8, 5, 10);
  falls.resume({}, 10, 5);
  CHECK(falls.rate(11) == 0.8);
  CHECK(falls.rate(12) == Approx(0.08));

  options.decay.name = DecayName::cosine_restarts;
  options.decay.every = epochs(1);
  Schedule restarts(options, 0.1, 8, 5, 10);
  restarts.resume({}, 20, 10);
  CHECK(restarts.rate(20) == restarts.rate(25));
  CHECK(restarts.rate(20) > restarts.rate(22));
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
