#include "dtrain/study/report/reported_study.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/study/report/page.hpp"
#include "dtrain/study/report/report_text.hpp"
#include "dtrain/study/report/reported_run.hpp"
#include "dtrain/study/report/run_source.hpp"
#include "made_runs.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using test::made_run;
using test::MadeEpoch;

namespace {

const Monitor kIou{"valid_iou", true};

// Two steady epochs of `seconds`, a tenth of it validation.
std::vector<MadeEpoch> epochs_of(double seconds, double iou, double allreduce = 0) {
  const MadeEpoch steady{.compute_s = 0.9 * seconds - allreduce,
                         .data_wait_s = 0,
                         .allreduce_s = allreduce,
                         .valid_s = 0.1 * seconds,
                         .iou = iou};
  MadeEpoch first = steady;
  first.compute_s += 20;
  return {first, steady, steady};
}

ReportedRun run_of(const test::TemporaryFolder& folder, const std::string& name, int64_t ranks,
                   const std::vector<MadeEpoch>& epochs, const std::string& series = "unet") {
  return read_reported_run({.path = made_run(folder, name, ranks, epochs), .series = series, .monitor = kIou}, false);
}

bool says(const std::vector<std::string>& sentences, const std::string& what) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& sentence) { return sentence.find(what) != std::string::npos; });
}

}  // namespace

TEST_CASE("a series has its figures, node borders, serial fractions and curves") {
  const test::TemporaryFolder folder;
  const std::vector<ReportedRun> runs = {
      run_of(folder, "a", 1, epochs_of(100, 0.9)), run_of(folder, "b", 4, epochs_of(40, 0.8)),
      run_of(folder, "c", 2, epochs_of(60, 0.85)), run_of(folder, "d", 2, epochs_of(60, 0.95))};
  const ReportedStudy study = reported_study("s", runs, {});
  REQUIRE(study.series.size() == 1);
  const ReportedSeries& series = study.series[0];
  REQUIRE(series.points.size() == 3);
  CHECK(series.has_one_rank);
  CHECK(series.node_borders == std::vector<int64_t>{4});
  const SeriesPoint& two = series.points[1];
  CHECK(two.runs == std::vector<size_t>{2, 3});
  CHECK(two.logical_ranks == 2);
  CHECK(two.figures.speedup.value() == Approx(100.0 / 60));
  CHECK(two.serial_fraction.value() == Approx((0.6 - 0.5) / 0.5));
  CHECK(two.speedup_of_total.value() == Approx(320.0 / 200));
  CHECK(two.figures.metric.mean.value() == Approx(0.9));
  CHECK(two.figures.metric.least == 0.85);
  CHECK(two.figures.metric.most == 0.95);
  REQUIRE(two.metric.size() == 3);
  CHECK(two.metric[1].runs == 2);
  CHECK(two.metric[1].least == 0.85);
  CHECK(two.metric[1].elapsed_s == Approx(140));
  CHECK(rows_of(study).size() == 3);
  // S² ÷ N: 1, 1.39, 1.56
  CHECK_FALSE(series.pays_up_to);
  CHECK(says(series.sentences, "More ranks pay up to 4"));
  CHECK(says(series.sentences, "worse by 0.1000; of single runs"));
}

TEST_CASE("more ranks do not pay after the knee, and the sentence says which share grew") {
  const test::TemporaryFolder folder;
  const std::vector<ReportedRun> runs = {run_of(folder, "a", 1, epochs_of(100, 0.9)),
                                         run_of(folder, "b", 2, epochs_of(52, 0.9, 2)),
                                         run_of(folder, "c", 4, epochs_of(50, 0.9, 24))};
  const ReportedSeries series = reported_study("s", runs, {}).series[0];
  CHECK(series.pays_up_to == 2);
  CHECK(says(series.sentences,
             "After 2 ranks more do not pay: on 4 ranks an epoch takes 50.0 s, on 2 52.0 s; an ideal "
             "division would take 26.0 s. Of the 24.0 s beyond that, 23.0 s is all-reduce (4 % of an "
             "epoch → 48 %)"));
  CHECK(says(series.sentences, "it grows, so what more ranks cost each other"));
  CHECK(says(series.sentences, "valid_iou is the same on 1 and 4 ranks"));
}

TEST_CASE("quality that falls is told against the spread of the seeds") {
  const test::TemporaryFolder folder;
  std::vector<ReportedRun> runs;
  const auto add = [&](const std::string& name, int64_t ranks, double iou) {
    runs.push_back(run_of(folder, name, ranks, epochs_of(100 / static_cast<double>(ranks), iou)));
  };
  add("a", 1, 0.90), add("b", 1, 0.91), add("c", 1, 0.92);
  add("d", 4, 0.80), add("e", 4, 0.81), add("f", 4, 0.82);
  CHECK(says(reported_study("s", runs, {}).series[0].sentences,
             "valid_iou is 0.9100 ± 0.0100 on 1 rank and 0.8100 ± 0.0100 on 4: worse by 0.1000, more than the seeds' "
             "spread (95 % interval ± 0.0227)"));
  runs.resize(3);
  add("g", 4, 0.80), add("h", 4, 0.92), add("i", 4, 0.91);
  CHECK(says(reported_study("s", runs, {}).series[0].sentences, "within the seeds' spread"));
}

TEST_CASE("without a run on 1 rank there is no speed-up, and above the ideal it is flagged") {
  const test::TemporaryFolder folder;
  ReportedSeries series =
      reported_study("s", {run_of(folder, "a", 2, epochs_of(50, 0.9)), run_of(folder, "b", 4, epochs_of(25, 0.9))}, {})
          .series[0];
  CHECK_FALSE(series.has_one_rank);
  CHECK_FALSE(series.points[1].figures.speedup);
  CHECK_FALSE(series.points[1].serial_fraction);
  CHECK(says(series.sentences, "No finished run on 1 rank has a rate"));
  series =
      reported_study("s", {run_of(folder, "c", 1, epochs_of(100, 0.9)), run_of(folder, "d", 2, epochs_of(40, 0.9))}, {})
          .series[0];
  CHECK(series.points[1].above_ideal);
  CHECK(series.points[1].serial_fraction.value() < 0);
  CHECK(says(series.sentences, "A speed-up of 2.50 on 2 ranks is above the number of ranks"));
}

TEST_CASE("two series stand beside each other; runs that go on count in no figure") {
  const test::TemporaryFolder folder;
  std::vector<ReportedRun> runs = {run_of(folder, "a", 1, epochs_of(100, 0.9), "old"),
                                   run_of(folder, "b", 1, epochs_of(50, 0.8), "new")};
  const std::string going = made_run(folder, "c", 2, epochs_of(30, 0.99), false);
  runs.push_back(read_reported_run({.path = going, .series = "new", .monitor = kIou}, false));
  const Report report{.title = "s", .runs = runs, .study = reported_study("s", runs, {"d failed (79): no"})};
  const ReportedStudy& study = *report.study;
  REQUIRE(study.series.size() == 2);
  CHECK(study.series[1].points.size() == 2);
  CHECK(study.series[1].points[1].runs.empty());
  CHECK(study.series[1].points[1].train_loss.size() == 3);
  CHECK(rows_of(study).size() == 2);
  CHECK(study.sentences == std::vector<std::string>{"The best valid_iou has old, on 1 rank: 0.9000."});
  CHECK(says(study.notes, "1 run is not finished: curves"));
  runs.back().state = "failed (79)";
  CHECK(says(reported_study("s", runs, {}).notes, "1 run is not finished, 1 of them failed: curves"));
  const std::vector<std::string> text = report_text(report);
  CHECK(says(text, "old, valid_iou"));
  CHECK(says(text, "d failed (79): no"));
}

TEST_CASE("a study's points are read from its folder, wherever it has moved") {
  const test::TemporaryFolder folder;
  make_folders(folder / "s/runs");
  made_run(folder, "s/runs/p1", 1, epochs_of(100, 0.9));
  made_run(folder, "s/runs/p2", 2, epochs_of(50, 0.9));
  made_run(folder, "s/runs/p3", 2, epochs_of(50, 0.9), false);
  const std::string header =
      "point,ranks,seed,fold,optimizer.name,state,exit_code,run_dir,processes,elapsed_s,metric,series,message\n";
  write_file_atomically(folder / "s/points.csv",
                        header +
                            "p1,1,7,1,sgd,done,0,elsewhere/p1,1,320,valid_iou,optimizer.name=sgd,\n"
                            "p2,2,7,1,sgd,done,0,elsewhere/p2,1,,valid_iou,optimizer.name=sgd,\n"
                            "p3,2,8,1,sgd,failed,79,elsewhere/p3,2,,valid_iou,optimizer.name=sgd,the loss is NaN\n"
                            "p4,2,9,1,sgd,waiting,,elsewhere/p4,2,,valid_iou,optimizer.name=sgd,\n");
  CHECK_FALSE(is_study_folder(folder / "s"));
  const std::string described = "study: \"dtrain-study-1\"\nconfiguration:\n  \"epochs\": \"3\"\n";
  write_file_atomically(folder / "s/study.yaml", described);
  CHECK(is_study_folder(folder / "s"));
  const StudySource study = read_study(folder / "s");
  CHECK(study.name == "s");
  CHECK(study.title == "s");  // and not the first of its values
  REQUIRE(study.runs.size() == 3);
  CHECK(study.runs[0].series == "optimizer.name=sgd");
  CHECK(study.runs[0].seed == 7);
  CHECK(study.runs[0].fold == 1);
  CHECK(study.runs[0].timed);
  CHECK_FALSE(study.runs[1].timed);
  CHECK(study.runs[2].state == "failed (79)");
  CHECK(study.notes == std::vector<std::string>{"p3 failed (79): the loss is NaN", "1 point has not begun"});
  CHECK(read_reported_run(study.runs[0], false).result.best == 0.9);
  CHECK_FALSE(study.advice);
  write_file_atomically(folder / "s/study.yaml",
                        described + "title: \"Two\"\nexpected: {\"source\":\"a paper\",\"figures\":[\"70 min\"]}\n");
  CHECK(read_study(folder / "s").title == "Two");
  CHECK(read_study(folder / "s").words.expected == std::vector<std::string>{"70 min"});
  write_file_atomically(folder / "s/study.yaml", "study: x\nadvise: {}\n");
  CHECK(says(read_study(folder / "s").notes, "no title, no published figures, no advice: "));
  write_file_atomically(folder / "s/points.csv", "point,ranks\na,1\n");
  CHECK_THROWS_AS(read_study(folder / "s"), DataError);
}

TEST_CASE("the short runs of --advise are judged by their lowest validation loss, and stand first in the report") {
  const test::TemporaryFolder folder;
  const std::string series = "schedule.scale_with_ranks=";
  std::vector<ReportedRun> runs = {run_of(folder, "a", 1, epochs_of(10, 0.5), series + "none, schedule.warmup=none"),
                                   run_of(folder, "b", 8, epochs_of(10, 0.5), series + "none, schedule.warmup=none"),
                                   run_of(folder, "c", 8, epochs_of(10, 0.5), series + "sqrt, schedule.warmup=none"),
                                   run_of(folder, "d", 8, epochs_of(10, 0.5), series + "linear, schedule.warmup=none")};
  runs[0].valid_loss = {0.5, 0.3, 0.4};
  runs[1].valid_loss = {0.9, 0.8, std::nan("")};
  runs[2].valid_loss = {0.7, 0.2, 0.9};
  runs[3].finished = false;
  runs[3].state = "failed (79)";
  Report report{.title = "s", .runs = runs, .study = reported_study("s", runs, {})};
  report.study->advice = advice_of({.present = {"linear", "none"}, .epochs = 3, .of_epochs = 9}, runs);
  const RateAdvice& advice = *report.study->advice;
  REQUIRE(advice.choice);
  CHECK(advice.rules[*advice.choice].rule == RateRule{"sqrt", "none"});
  CHECK(advice.baseline.loss.mean == 0.3);
  CHECK(advice.rules[0].loss.mean == 0.8);
  CHECK(advice.rules[2].diverged == 1);
  const std::vector<std::string> text = report_text(report);
  REQUIRE(text.size() > 3);
  CHECK(text[2] == "Advice");
  CHECK(says(text, "The configuration has linear without warmup, which diverged."));
  const std::string page = report_page(report);
  REQUIRE(page.find(">Overview</h2>") != std::string::npos);
  CHECK(page.find(">Advice</h2>") < page.find(">Overview</h2>"));
}
