#include "dtrain/study/report/reported_run.hpp"

#include <algorithm>
#include <cmath>

#include "made_runs.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using test::made_run;
using test::MadeEpoch;

static ReportedRun read(const std::string& folder) {
  return read_reported_run({.path = folder, .monitor = {"valid_iou", true}}, true);
}

static const std::vector<MadeEpoch> kMadeEpochs = {
    {.compute_s = 30, .iou = 0.4}, {.iou = 0.7}, {.compute_s = 10, .iou = 0.6}};

TEST_CASE("a run is reported with its curves, its best epoch and where its time went") {
  const test::TemporaryFolder folder;
  const ReportedRun run = read(made_run(folder, "a", 4, kMadeEpochs));
  CHECK(run.name == "a");
  CHECK(run.state == "finished");
  CHECK(run.ranks == 4);
  CHECK(run.nodes == 2);
  CHECK(run.epoch == std::vector<double>{1, 2, 3});
  CHECK(run.train_loss[1] == 0.5);
  CHECK(run.elapsed_s == std::vector<double>{34, 46, 60});
  REQUIRE(run.metrics.size() == 1);
  CHECK(run.metrics[0].name == "valid_iou");
  CHECK(run.result.best == 0.7);
  CHECK(run.result.best_epoch == 2);
  std::vector<std::string> names;
  for (const TimePart& part : run.times) names.push_back(part.name);
  CHECK(names == std::vector<std::string>{"compute", "data wait", "all-reduce", "validation"});
  CHECK(run.mean_times[0].seconds == 9);  // without the first epoch
  CHECK(run.notes.empty());
  CHECK(run.sentences[0] == "The best valid_iou is 0.7000, in epoch 2 of 3.");
  CHECK(run.sentences[1] ==
        "A steady epoch takes 13.0 s: compute 69 %, data wait 8 %, all-reduce 8 %, validation 15 %.");
  CHECK(run.sentences.back().find("The first epoch took 34.0 s, 2.6 times") == 0);
  const std::pair<std::string, std::string> started{"started", "2026-01-31T12:00:00Z"};
  CHECK(std::count(run.manifest.begin(), run.manifest.end(), started) == 1);
}

TEST_CASE("a run that goes on, or whose files are damaged, is read as far as it is, with notes") {
  const test::TemporaryFolder folder;
  const std::string path = made_run(folder, "a", 1, kMadeEpochs, false);
  const std::string whole = read_text(path + "/epochs.csv");
  std::string torn = whole;
  torn.replace(torn.find("\n2,"), 12, "\n2,1");  // cut in the middle
  write_file_atomically(path + "/epochs.csv", torn + "4,100,0.2");
  write_file_atomically(path + "/run.json", "{\"ranks\": ");
  write_file_atomically(path + "/metrics_valid.json", "[]");
  write_file_atomically(path + "/ranks.csv", std::string(8, '\0'));
  ReportedRun run = read(path);
  CHECK(run.state == "not finished");
  CHECK(run.epoch.size() >= 2);
  CHECK(run.notes.size() >= 4);
  CHECK(std::any_of(run.notes.begin(), run.notes.end(),
                    [](const std::string& note) { return note.find("torn line") != std::string::npos; }));
  // Whatever the bytes are, there is no crash.
  for (size_t cut = 0; cut < whole.size(); cut += 7) {
    write_file_atomically(path + "/epochs.csv", whole.substr(0, cut) + "\n" + whole.substr(cut));
    run = read(path);
    write_file_atomically(path + "/epochs.csv", whole.substr(0, cut));
    CHECK(read(path).epoch.size() <= 3);
  }
  const ReportedRun empty = read_reported_run({.path = folder / "none"}, true);
  CHECK(empty.epoch.empty());
  CHECK_FALSE(empty.result.best);
}

TEST_CASE("what eval wrote gives intervals and counts of classes, else the best epoch's values stand") {
  const test::TemporaryFolder folder;
  const std::string path = made_run(folder, "a", 1, kMadeEpochs);
  write_file_atomically(
      path + "/epochs.csv",
      "epoch,valid_auroc,valid_auroc_Mass,valid_auroc_Hernia,epoch_seconds\n1,0.6,0.7,,1\n2,0.8,0.9,,1\n"
      "3,0.7,0.6,0.5,1\n");
  ReportedRun run = read_reported_run({.path = path}, true);
  CHECK(run.monitor.column == "valid_auroc");
  CHECK(run.per_class_of == "auroc");
  REQUIRE(run.per_class.size() == 2);
  CHECK(run.per_class[0].name == "Mass");
  CHECK(run.per_class[0].value == 0.9);
  CHECK_FALSE(run.per_class[0].low);
  CHECK_FALSE(run.per_class[1].value);
  CHECK(run.split.empty());
  write_file_atomically(path + "/metrics_valid.json",
                        R"({"auroc": {"value": 0.8, "low": 0.7, "high": 0.9},
                            "auroc_Mass": {"value": 0.85, "low": 0.75, "high": 0.95}, "auroc_Hernia": null})");
  write_file_atomically(path + "/predictions_valid.csv",
                        "path,score_Mass,label_Mass,score_Hernia,label_Hernia\na,0.5,1,0.1,0\nb,0.5,0,0.1,\n");
  run = read_reported_run({.path = path}, true);
  CHECK(run.split == "valid");
  REQUIRE(run.values.size() == 1);
  CHECK(run.values[0].low == 0.7);
  CHECK(run.per_class[0].value == 0.85);
  CHECK(run.per_class[0].high == 0.95);
  CHECK_FALSE(run.per_class[1].value);
  REQUIRE(run.counts.size() == 2);
  CHECK(run.counts[0].positives == 1);
  CHECK(run.counts[1].known == 1);
}

TEST_CASE("a rank that is slow in most epochs is named with its host") {
  const test::TemporaryFolder folder;
  const std::string path = made_run(folder, "a", 4, kMadeEpochs);
  std::string ranks = "epoch,rank,compute_s,data_wait_s,step_ms_median,step_ms_p95\n";
  for (int epoch = 1; epoch <= 5; ++epoch)
    for (int rank = 0; rank < 4; ++rank) {
      const bool once = rank == 1 && epoch == 3;  // a chance delay
      const std::string compute = rank == 2 ? "13" : once ? "60" : "10";
      ranks += std::to_string(epoch) + "," + std::to_string(rank) + "," + compute + ",0,5,9\n";
    }
  write_file_atomically(path + "/ranks.csv", ranks);
  const ReportedRun run = read(path);
  REQUIRE(run.rank_times.size() == 4);
  CHECK(std::count_if(run.rank_times.begin(), run.rank_times.end(), [](const RankTime& r) { return r.slow; }) == 1);
  CHECK(run.rank_times[0].rank == 1);  // in the mean the slowest, by one epoch
  CHECK(run.rank_times[1].rank == 2);
  CHECK(run.rank_times[1].slow);
  CHECK(run.rank_times[1].host == "n1");
  CHECK(run.sentences.back().find("rank 2 on n1 takes 1.") == 0);
}

TEST_CASE("settings that differ make another series, seeds and numbers of ranks do not") {
  using Settings = std::map<std::string, std::string>;
  CHECK(series_by_settings({{{"a", "1"}}, {{"a", "1"}}}, {"x", "y"}, "x") == std::vector<std::string>{"x", "x"});
  CHECK(series_by_settings({{{"a", "1"}, {"b", "2"}}, {{"a", "3"}, {"b", "2"}}}, {"x", "y"}, "x") ==
        std::vector<std::string>{"a=1", "a=3"});
  const Settings one = {{"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "1"}};
  CHECK(series_by_settings({one, {}, one}, {"x", "y", "z"}, "x") == std::vector<std::string>{"x", "y", "x"});
}
