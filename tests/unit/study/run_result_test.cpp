#include "dtrain/study/run_result.hpp"

#include <filesystem>
#include <fstream>

#include "dtrain/base/error.hpp"
#include "dtrain/study/remaining_time.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;

static void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

constexpr const char* kEpochs =
    "epoch,samples,epoch_seconds,elapsed_s,valid_seconds,valid_iou\n"
    "1,100,50,55,5,0.2\n"
    "2,100,9,66,1,0.7\n"
    "3,100,11,78,3,\n"
    "4,100,10,90,2,0.7\n";

TEST_CASE("a finished run's best value is the first of its optimum, its rates are of steady epochs") {
  const test::TemporaryFolder folder;
  write(folder / "epochs.csv", kEpochs);
  write(folder / "run.json",
        R"({"ranks": 2, "logical_ranks": 4, "result_sha256": "ab", "data_sha256": "cd", "split_sha256": "ef",
    "versions": {"device": "cpu"}, "hosts": [{"host": "a"}, {"host": "b"}, {"host": "a"}]})");
  write(folder / "DONE", "");
  const RunResult run = read_result(folder.path(), {"valid_iou", true});
  CHECK(run.done);
  CHECK(run.epochs == 4);
  CHECK(run.best == 0.7);
  CHECK(run.best_epoch == 2);
  CHECK(run.elapsed_s == 90);
  CHECK(run.images_per_s == 10);      // 300 samples in 30 s
  CHECK(run.epochs_per_hour == 300);  // 3 epochs in 36 s
  CHECK(run.result_sha256 == "ab");
  CHECK(run.data_sha256 == "cd");
  CHECK(run.split_sha256 == "ef");
  CHECK(run.device == "cpu");
  CHECK(run.nodes == 2);
  CHECK(run.ranks == 2);
  CHECK(run.logical_ranks == 4);
  CHECK(read_result(folder.path(), {"valid_iou", false}).best == 0.2);
  CHECK_FALSE(read_result(folder.path(), {"valid_loss", false}).best);
}

TEST_CASE("a run that goes on is read up to its last whole line") {
  const test::TemporaryFolder folder;
  CHECK(read_result(folder / "none", {}).epochs == 0);
  write(folder / "epochs.csv", std::string(kEpochs) + "5,100,10,1");
  CHECK(read_result(folder.path(), {"valid_iou", true}).epochs == 4);
  write(folder / "epochs.csv", "epoch,sam");
  CHECK(read_result(folder.path(), {}).epochs == 0);
  write(folder / "epochs.csv", "epoch,samples,epoch_seconds,elapsed_s\n1,100,50,55\n");
  const RunResult first = read_result(folder.path(), {});
  CHECK(first.epochs == 1);
  CHECK_FALSE(first.images_per_s);
  CHECK_FALSE(first.epochs_per_hour);
  write(folder / "run.json", "{");
  CHECK(read_result(folder.path(), {}).logical_ranks == 0);
  write(folder / "epochs.csv", "epoch,samples\n1,2,3\n");
  CHECK_THROWS_AS(read_result(folder.path(), {}), DataError);
}

TEST_CASE("why a job failed is its last error line of this start") {
  const test::TemporaryFolder folder;
  const std::string log = folder / "log.txt";
  CHECK(last_sentence(log, 0).empty());
  const std::string before = "dtrain: error 66: no such file: a\n";
  write(log, before + "epoch 1\ndtrain: error 79 [rank 1 @ n]: the loss is not finite\nmpirun: sorry\n\n");
  const auto from = static_cast<int64_t>(before.size());
  CHECK(last_sentence(log, from) == "the loss is not finite");
  write(log, before + "epoch 1\n-----\n  killed\n-----\n\n");
  CHECK(last_sentence(log, from) == "killed");
  CHECK(last_sentence(log, 1000).empty());
}

TEST_CASE("what is left takes as long as points of as many ranks took, else as all") {
  CHECK_FALSE(remaining_seconds({}));
  CHECK_FALSE(remaining_seconds({{.ranks = 1}, {.ranks = 2}}));
  const PointTime slow{.ranks = 1, .over = true, .seconds = 100, .share = 1};
  const PointTime fast{.ranks = 2, .over = true, .seconds = 50, .share = 1};
  CHECK(remaining_seconds({slow, fast}) == 0);
  CHECK(remaining_seconds({slow, fast, {.ranks = 1}, {.ranks = 2}}) == 150);
  CHECK(remaining_seconds({slow, fast, {.ranks = 4}}) == 75);
  CHECK(remaining_seconds({{.ranks = 1, .seconds = 10, .share = 0.25}}) == 30);
  CHECK(remaining_seconds({slow, {.ranks = 1, .over = true}, {.ranks = 1}}) == 100);  // one failed at once
}
