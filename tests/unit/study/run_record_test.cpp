#include "dtrain/study/run_record.hpp"

#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;

namespace {

constexpr const char* kFacts =
    R"({"ranks": 3, "logical_ranks": 4, "split_sha256": "ab", "versions": {"dtrain": "0.1.0"}, "bucket_mb": 1.5,
        "hosts": [{"host": "n1", "device": "cpu"}, {"host": "n1", "device": "cpu"}, {"host": "n2", "device": "cpu"}]})";
constexpr const char* kEvents =
    "{\"event\":\"start\",\"step\":0,\"epoch\":0}\n"
    "{\"event\":\"step\",\"step\":1,\"train_loss\":0.5,\"step_s\":0.25}\n"
    "{\"event\":\"step\",\"step\":2,\"train_loss\":null}\n";

void write_in(const test::TemporaryFolder& folder, const std::string& name, const std::string& text) {
  write_file_atomically(folder / name, text);
}

}  // namespace

TEST_CASE("a run's folder is read as its files say") {
  const test::TemporaryFolder folder;
  write_in(folder, "run.json", kFacts);
  write_in(folder, "metrics.jsonl", kEvents);
  write_in(folder, "epochs.csv", "epoch,steps,valid_auroc\n1,10,\n2,10,0.75\n");
  write_in(folder, "DONE", "");
  const RunRecord run = read_run(folder.path() + "//");
  CHECK(run.folder == folder.path());
  CHECK(run.text("split_sha256") == "ab");
  CHECK(run.text("data_sha256").empty());
  CHECK(run.versions.at("dtrain") == "0.1.0");
  CHECK(run.counts.at("logical_ranks") == 4);
  CHECK(run.hosts == std::map<std::string, int64_t>{{"n1, cpu", 2}, {"n2, cpu", 1}});
  REQUIRE(run.steps.size() == 2);
  CHECK(run.steps[0].loss == 0.5);
  CHECK(run.steps[0].seconds.value() == 0.25);
  CHECK(std::isnan(run.steps[1].loss));
  CHECK_FALSE(run.steps[1].seconds);
  REQUIRE(run.epochs.rows() == 2);
  CHECK_FALSE(run.epochs.at(0, "valid_auroc"));
  CHECK(run.epochs.at(1, "valid_auroc") == 0.75);
  CHECK(run.nodes() == 2);
  CHECK(run.host_of_rank == std::vector<std::string>{"n1", "n1", "n2"});
  CHECK(run.done);
  CHECK(run.notes.empty());
}

TEST_CASE("a run that is still going on, or whose last lines are torn, is read as far as it is") {
  const test::TemporaryFolder folder;
  write_in(folder, "metrics.jsonl", std::string(kEvents) + "{\"event\":\"st");
  write_in(folder, "epochs.csv", "epoch,steps\n1,10\n2");
  const RunRecord run = read_run(folder.path());
  CHECK(run.steps.size() == 2);
  CHECK(run.epochs.rows() == 1);
  CHECK_FALSE(run.done);
  REQUIRE(run.notes.size() == 3);
  CHECK(run.notes[0] == folder / "metrics.jsonl" + " ends in a torn line, which is left out");
  CHECK(run.notes[2].find("has no run.json") != std::string::npos);
}

TEST_CASE("a step that was taken again counts once") {
  const test::TemporaryFolder folder;
  write_in(folder, "metrics.jsonl",
           std::string(kEvents) +
               "{\"event\":\"resume\",\"step\":1}\n{\"event\":\"step\",\"step\":2,\"train_loss\":0.25}\n");
  const RunRecord run = read_run(folder.path());
  REQUIRE(run.steps.size() == 2);
  CHECK(run.steps[1].loss == 0.25);
}

TEST_CASE("what is not a run's folder is refused in one sentence") {
  const test::TemporaryFolder folder;
  CHECK_THROWS_AS(read_run(folder / "absent"), MissingError);
  write_in(folder, "file", "");
  CHECK_THROWS_AS(read_run(folder / "file"), DataError);
  CHECK_THROWS_WITH(read_run(folder.path()), Catch::Contains("is not a run's folder"));
  write_in(folder, "run.json", "[]");
  CHECK_THROWS_WITH(read_run(folder.path()), Catch::Contains("run.json is a list, not the facts of a run"));
  write_in(folder, "run.json", "{");
  CHECK_THROWS_AS(read_run(folder.path()), DataError);
  write_in(folder, "run.json", kFacts);
  for (const char* line : {"1\n", "{}\n", "{\"event\":\"step\"}\n", "{\"event\":\"step\",\"step\":-1}\n"}) {
    write_in(folder, "metrics.jsonl", line);
    CHECK_THROWS_WITH(read_run(folder.path()), Catch::Contains("metrics.jsonl, line 1"));
  }
  write_in(folder, "metrics.jsonl", kEvents);
  write_in(folder, "epochs.csv", "epoch,steps\n1,ten\n");
  CHECK_THROWS_WITH(read_run(folder.path()), Catch::Contains("epochs.csv, line 2: 'steps' is not a number"));
  write_in(folder, "epochs.csv", "a,b\n1,2\n");
  CHECK_THROWS_WITH(read_run(folder.path()), Catch::Contains("has no column 'epoch'"));
}

TEST_CASE("of damaged files the rest is read, and each is named once") {
  const test::TemporaryFolder folder;
  write_in(folder, "run.json", "{\"ranks\": 3");
  write_in(folder, "metrics.jsonl", "{\"event\":\"step\",\"step\":1,\"train_loss\":1}\nx\ny\n");
  write_in(folder, "epochs.csv", "epoch,steps\n1,10\n2,ten\n3\n2,12\n,13\n3,14\n");
  write_in(folder, "ranks.csv", "rank\n0\n");
  const RunRecord run = look_at_run(folder.path(), {.steps = true, .ranks = true});
  CHECK(run.steps.size() == 1);
  CHECK(*run.epochs.column("epoch") == std::vector<double>{1, 2, 3});
  CHECK(*run.epochs.column("steps") == std::vector<double>{10, 12, 14});  // the second start's row of epoch 2
  REQUIRE(run.faults.size() == 4);
  CHECK(run.faults[0].file == folder / "run.json");
  CHECK(run.faults[1].more == 1);
  CHECK(run.faults[2].sentence == folder / "epochs.csv" + ", line 3: 'steps' is not a number");
  CHECK(run.faults[2].more == 2);
  CHECK(run.faults[3].sentence == folder / "ranks.csv" + " has no column 'epoch': it is not a run's");
  CHECK(look_at_run(folder / "none", {}).epochs.rows() == 0);
}
