#include "dtrain/study/simulate/scaling_prediction.hpp"

#include "dtrain/base/time.hpp"
#include "support/catch.hpp"

using namespace dtrain;

// 100 ms a step of 10 images; nothing is lost but what a test adds.
static SimulatedJob ideal() {
  SimulatedJob job;
  job.workload.compute_s = 0.1;
  job.workload.batch = 10;
  job.cluster = {"", 4, {0, 1e12}, {0, 1e12}, 0};
  return job;
}

TEST_CASE("without losses efficiency is 1, and training takes its share") {
  SimulatedJob job = ideal();
  job.length = {.samples = 1000, .epochs = 3, .valid_s = 8, .start_s = 5};
  const ScalingPrediction eight = predict_scaling(job, SumWay::canonical, 8);
  CHECK(eight.efficiency == Approx(1));
  CHECK(eight.speedup == Approx(8));
  CHECK(*eight.serial_fraction == Approx(0).margin(1e-12));
  CHECK(*eight.time_to_train_s == Approx(5 + 3 * (13 * 0.1 + 1)));  // 1000 of 80: 13 steps
  CHECK(*eight.node_hours == Approx(2 * *eight.time_to_train_s / 3600));
  CHECK_FALSE(predict_scaling(job, SumWay::canonical, 1).serial_fraction);
  CHECK_FALSE(predict_scaling(ideal(), SumWay::canonical, 8).time_to_train_s);
}

TEST_CASE("the serial fraction is Karp and Flatt's") {
  SimulatedJob job = ideal();
  job.logical_ranks = 4;
  job.workload.fixed_s = 0.1;  // of 0.5 s: a fifth of the work is not shared
  const ScalingPrediction four = predict_scaling(job, SumWay::canonical, 4);
  CHECK(four.speedup == Approx(2.5));
  CHECK(*four.serial_fraction == Approx(0.2));
}

TEST_CASE("ranks pay until twice as many are less than √2 times as fast") {
  CHECK(pays_until(ideal(), SumWay::canonical) == kMostRanks);
  SimulatedJob strong = ideal();
  strong.logical_ranks = 64;
  CHECK(pays_until(strong, SumWay::canonical) == 64);
  strong.workload.fixed_s = 1;  // 7.4, 4.2, 2.6, 1.8, 1.4 s: the last two are 1.44 and 1.29 times as fast as before
  CHECK(pays_until(strong, SumWay::canonical) == 8);
  SimulatedJob small = ideal();
  small.length = {.samples = 80, .epochs = 1};  // 8 ranks take them all in one step
  CHECK(pays_until(small, SumWay::canonical) == 8);
}

TEST_CASE("65,536 ranks are predicted in less than a second") {
  SimulatedJob job = ideal();
  job.workload.gradient_bytes = 100e6;
  const Stopwatch watch;
  for (const Word<SumWay>& way : kWordsOf<SumWay>) CHECK(predict_scaling(job, way.value, kMostRanks).efficiency > 0);
  CHECK(watch.seconds() < 1);
}
