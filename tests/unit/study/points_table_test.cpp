#include "dtrain/study/points_table.hpp"

#include <fstream>

#include "dtrain/io/files/csv.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;

static SweepRow row_of(const std::string& name, int64_t ranks, PointState state) {
  return {.point = {.name = name, .ranks = ranks, .values = {"0.1", "3"}, .seed = 3},
          .run_dir = "s/runs/" + name,
          .processes = ranks,
          .monitor = {"valid_iou", true},
          .state = state};
}

TEST_CASE("points.csv has a line for each point, with empty fields for what is unknown") {
  const SweepPlan plan{.over = {{"optimizer.learning_rate", {"0.1"}}, {"seed", {"3"}}}};
  SweepRow done = row_of("a", 2, PointState::done);
  done.result = {.done = true,
                 .epochs = 5,
                 .best = 0.5,
                 .best_epoch = 4,
                 .elapsed_s = 60,
                 .images_per_s = 10,
                 .epochs_per_hour = 300,
                 .result_sha256 = "ab"};
  SweepRow crowded = done;
  crowded.point.name = "b";
  crowded.processes = 1;
  SweepRow failed = row_of("c", 1, PointState::failed);
  failed.exit_code = 79;
  failed.message = "no, \"not\" finite";
  SweepRow beside = row_of("d", 1, PointState::waiting);
  beside.jobs = 2;
  SweepRow timed = done;
  timed.point.name = "e";
  timed.jobs = 2;
  const std::string text = points_csv(plan, {done, crowded, failed, beside, timed});
  CHECK(text ==
        "point,ranks,seed,fold,optimizer.learning_rate,state,exit_code,run_dir,processes,jobs,epochs_done,metric,best,"
        "best_epoch,images_per_s,epochs_per_hour,elapsed_s,result_sha256,series,message\n"
        "a,2,3,,0.1,done,0,s/runs/a,2,1,5,valid_iou,0.5,4,10,300,60,ab,\"optimizer.learning_rate=0.1, seed=3\",\n"
        "b,2,3,,0.1,done,0,s/runs/a,1,1,5,valid_iou,0.5,4,,,,ab,\"optimizer.learning_rate=0.1, seed=3\",\n"
        "c,1,3,,0.1,failed,79,s/runs/c,1,1,0,valid_iou,,,,,,,\"optimizer.learning_rate=0.1, seed=3\",\"no, \"\"not\"\" "
        "finite\"\n"
        "d,1,3,,0.1,waiting,,s/runs/d,1,2,0,valid_iou,,,,,,,\"optimizer.learning_rate=0.1, seed=3\",\n"
        "e,2,3,,0.1,done,0,s/runs/a,2,2,5,valid_iou,0.5,4,,,,ab,\"optimizer.learning_rate=0.1, seed=3\",\n");

  const test::TemporaryFolder folder;
  std::ofstream(folder / "points.csv") << text;
  const auto points = earlier_points(folder / "points.csv");
  REQUIRE(points.size() == 5);
  CHECK(points.at("c").failed);
  CHECK(points.at("c").exit_code == 79);
  CHECK(points.at("c").message == failed.message);
  CHECK_FALSE(points.at("a").failed);
  CHECK(points.at("a").jobs == 1);
  CHECK(points.at("d").jobs == 2);
}
