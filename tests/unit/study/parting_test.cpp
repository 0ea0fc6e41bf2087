#include "dtrain/study/parting.hpp"

#include <cmath>

#include "support/catch.hpp"

using namespace dtrain;

namespace {

std::vector<StepRecord> steps_of(const std::vector<double>& losses, int64_t first = 1) {
  std::vector<StepRecord> steps;
  for (const double loss : losses) steps.push_back({first++, loss, std::nullopt});
  return steps;
}

NumberTable table_of(const std::string& rows) {
  NumberTable table;
  REQUIRE_FALSE(
      read_numbers("epoch,valid_auroc,elapsed_s,epoch_seconds,samples,steps,data_wait_s\n" + rows, "", table));
  return table;
}

}  // namespace

TEST_CASE("losses part at the first step that differs in a bit") {
  const double least = std::nextafter(0.5, 1.0);
  const Parting parting = parting_of(steps_of({0.7, 0.6, 0.5, 0.4, 0.2}), steps_of({0.7, 0.6, least, 0.3, 0.25}));
  CHECK(parting.both == 5);
  CHECK(parting.same == 2);
  CHECK(parting.first.value() == 3);
  CHECK(parting.first_apart > 1e-16);
  CHECK(parting.first_apart < 3e-16);
  CHECK(parting.largest == 4);
  CHECK(parting.largest_apart == Approx(0.25));
  CHECK(parting.last == 5);
  CHECK(parting.last_a == 0.2);
  CHECK(parting.last_b == 0.25);
  CHECK(parting.last_apart == Approx(0.2));
}

TEST_CASE("only steps that both have are compared") {
  const Parting same = parting_of(steps_of({0.7, 0.6, 0.5}), steps_of({0.6, 0.5, 0.4}, 2));
  CHECK(same.both == 2);
  CHECK(same.same == 2);
  CHECK_FALSE(same.first);
  CHECK(parting_of(steps_of({0.7}), steps_of({0.7}, 2)).both == 0);
  CHECK(parting_of({}, {}).both == 0);
}

TEST_CASE("a loss that is no number equals another and is no distance from any") {
  const double nan = std::nan("");
  CHECK_FALSE(parting_of(steps_of({nan}), steps_of({nan})).first);
  const Parting parting = parting_of(steps_of({nan, 0.5}), steps_of({0.5, 0.4}));
  CHECK(parting.first.value() == 1);
  CHECK(std::isnan(parting.first_apart));
  CHECK(parting.largest == 2);
}

TEST_CASE(
    "of equally good epochs the best is the one with the lowest validation loss, else the first, as in training") {
  const NumberTable epochs = table_of("1,0.5,10,,,,\n2,0.8,20,,,,\n3,0.8,30,,,,\n4,,,,,,\n");
  CHECK(best_epoch(epochs, "valid_auroc", true)->epoch == 2);
  CHECK(best_epoch(epochs, "valid_auroc", true)->elapsed_s.value() == 20);
  CHECK(best_epoch(epochs, "valid_auroc", false)->epoch == 1);
  CHECK_FALSE(best_epoch(epochs, "valid_iou", true));
  NumberTable tied;
  read_numbers("epoch,valid_loss,valid_auroc\n1,0.5,0.8\n2,0.3,0.8\n3,0.4,0.8\n4,,0.8\n", "epochs.csv", tied);
  CHECK(best_epoch(tied, "valid_auroc", true)->epoch == 2);
  CHECK(best_epoch(tied, "valid_loss", false)->epoch == 2);
}

TEST_CASE("times come from the epochs, and a step's from the steps where they have it") {
  RunRecord run;
  CHECK_FALSE(times_of(run).elapsed_s);
  run.epochs = table_of("1,0.5,10,2,100,10,1\n2,0.8,20,4,100,10,1\n3,0.8,33,6,100,10,1\n");
  RunTimes times = times_of(run);
  CHECK(times.elapsed_s.value() == 33);
  CHECK(times.epoch_s.value() == 4);
  CHECK(times.images_per_s.value() == Approx(25));
  CHECK(times.data_wait_share.value() == Approx(0.25));
  CHECK(times.step_ms.value() == Approx(400));
  CHECK_FALSE(times.valid_s);
  run.steps = {{1, 0.5, 0.1}, {2, 0.5, 0.3}, {3, 0.5, std::nullopt}};
  CHECK(times_of(run).step_ms.value() == Approx(200));
}
