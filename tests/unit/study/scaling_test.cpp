#include "dtrain/study/scaling.hpp"

#include <cmath>

#include "support/catch.hpp"

using namespace dtrain;

static SweepRow scaling_row(int64_t ranks, const std::string& value, double epochs_per_hour, double best) {
  SweepRow row{.point = {.name = "", .ranks = ranks, .values = {value}}, .processes = ranks};
  row.state = PointState::done;
  row.result = {.done = true,
                .epochs = 9,
                .best = best,
                .elapsed_s = 100,
                .images_per_s = 10,
                .epochs_per_hour = epochs_per_hour,
                .device = "cpu",
                .nodes = 1};
  return row;
}

static const SweepPlan kPlan{.over = {{"data.loader.pipeline", {"parallel", "sequential"}}}};

TEST_CASE("the spread of a sample") {
  CHECK_FALSE(spread_of({}).mean);
  CHECK(spread_of({3}).mean == 3);
  CHECK_FALSE(spread_of({3}).sd);
  CHECK(spread_of({2, 4, 4, 4, 5, 5, 7, 9}).mean == 5);
  CHECK(spread_of({2, 4, 4, 4, 5, 5, 7, 9}).sd == std::sqrt(32.0 / 7));
}

TEST_CASE("efficiency is epochs per hour at N over N times epochs per hour at 1, in each series") {
  const auto rows = scaling_rows(kPlan,
                                 {scaling_row(1, "parallel", 100, 0.5), scaling_row(4, "parallel", 300, 0.5),
                                  scaling_row(1, "sequential", 10, 0.5), scaling_row(4, "sequential", 45, 0.5),
                                  scaling_row(2, "sequential", 15, 0.5)},
                                 "study");
  REQUIRE(rows.size() == 5);
  CHECK(rows[0].series == "data.loader.pipeline=parallel");
  CHECK(rows[0].speedup == 1);
  CHECK(rows[0].efficiency == 1);
  CHECK(rows[1].speedup == 3);
  CHECK(rows[1].efficiency == 0.75);
  CHECK(rows[3].speedup == 4.5);
  CHECK(rows[4].efficiency == 0.75);
  CHECK(scaling_csv({rows[1]}) ==
        "series,device,nodes,ranks,runs,epochs_per_hour,images_per_s,time_to_train_s,speedup,efficiency,metric,"
        "metric_spread\ndata.loader.pipeline=parallel,cpu,1,4,1,300,10,100,3,0.75,0.5,\n");
}

TEST_CASE("seeds and folds are one row, with mean and standard deviation") {
  const SweepPlan plan{.repeat = 2};
  SweepRow first = scaling_row(2, "", 100, 0.5);
  SweepRow second = scaling_row(2, "", 300, 0.75);
  first.point.values = second.point.values = {};
  auto rows = scaling_rows(plan, {first, second}, "chips");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].series == "chips");
  CHECK(rows[0].runs == 2);
  CHECK(rows[0].epochs_per_hour == 200);
  CHECK(rows[0].metric.mean == 0.625);
  CHECK(rows[0].metric.sd == std::sqrt(2 * 0.125 * 0.125));
  CHECK_FALSE(rows[0].speedup);  // nothing at 1 rank

  second.state = PointState::failed;
  rows = scaling_rows(plan, {first, second}, "chips");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].runs == 1);
}

TEST_CASE("runs on fewer processes than ranks count for quality alone") {
  SweepRow crowded = scaling_row(4, "parallel", 50, 0.75);
  crowded.processes = 2;
  const auto rows = scaling_rows(kPlan, {scaling_row(1, "parallel", 100, 0.5), crowded}, "study");
  CHECK(rows[1].metric.mean == 0.75);
  CHECK_FALSE(rows[1].epochs_per_hour);
  CHECK_FALSE(rows[1].time_to_train_s);
  CHECK_FALSE(rows[1].efficiency);
}

TEST_CASE("the serial fraction is what Karp and Flatt solve Amdahl's law for") {
  for (const double serial : {0.0, 0.05, 0.5, 1.0})
    for (const int64_t ranks : {2, 8, 64})
      CHECK(serial_fraction(1 / (serial + (1 - serial) / static_cast<double>(ranks)), ranks).value() ==
            Approx(serial).margin(1e-12));
  CHECK_FALSE(serial_fraction(1, 1));
  CHECK(serial_fraction(3, 2).value() < 0);
}

TEST_CASE("twice the ranks pay if they are more than the root of two as fast") {
  CHECK(ranks_that_pay({{1, 100}, {2, 142}}) == 2);
  CHECK(ranks_that_pay({{1, 100}, {2, 141}}) == 1);
  CHECK(ranks_that_pay({{2, 100}, {4, 120}, {8, 390}}) == 8);  // one slow point in the middle does not end it
  CHECK_FALSE(ranks_that_pay({{4, 100}}));
}

TEST_CASE("the spread has its ends") {
  CHECK(spread_of({3, 1, 2}).least == 1);
  CHECK(spread_of({3, 1, 2}).most == 3);
  CHECK_FALSE(spread_of({}).least);
}
