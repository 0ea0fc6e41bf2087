#include "dtrain/study/report/column_map.hpp"

#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/study/report/reported_study.hpp"
#include "made_runs.hpp"
#include "support/catch.hpp"

using namespace dtrain;

namespace {

const ColumnMap kMap{.name = "hvd.yaml",
                     .columns = {{"time_per_epoch", "epoch_seconds"},
                                 {"loss", "train_loss"},
                                 {"iou", "valid_iou"},
                                 {"training_time", "elapsed_s"}},
                     .ranks = R"(log_hvd_(\d+)\.csv)",
                     .series = "Horovod"};

// As other tools write them: the time of the whole run and the final metric in every row, counted from 0.
std::string table(const std::vector<double>& seconds, double total, double iou) {
  std::string text = ",time_per_epoch,loss,lr,training_time,iou\n";
  for (size_t i = 0; i < seconds.size(); ++i)
    text += std::to_string(i) + "," + shortest(seconds[i]) + ",0.5,0.1," + shortest(total) + "," + shortest(iou) + "\n";
  return text;
}

}  // namespace

TEST_CASE("another tool's tables become runs of a series") {
  const test::TemporaryFolder folder;
  write_file_atomically(folder / "log_hvd_1.csv", table({60, 40, 44}, 150, 0.96));
  write_file_atomically(folder / "log_hvd_8.csv", table({50, 5, 6.5}, 65, 0.88));
  std::vector<ReportedRun> runs;
  for (const char* name : {"log_hvd_8.csv", "log_hvd_1.csv"}) runs.push_back(read_other_table(folder / name, kMap));
  CHECK(runs[0].ranks == 8);
  CHECK(runs[0].other_tool);
  CHECK(runs[0].finished);
  CHECK(runs[0].epoch == std::vector<double>{1, 2, 3});
  CHECK(runs[0].elapsed_s == std::vector<double>{50, 55, 61.5});  // of a column that does not rise: the epochs' sum
  CHECK(runs[0].result.elapsed_s == 65);
  CHECK(runs[0].monitor.column == "valid_iou");
  CHECK(runs[0].notes.empty());
  const ReportedSeries series = reported_study("s", runs, {}).series.at(0);
  CHECK(series.name == "Horovod");
  CHECK(series.points[1].figures.speedup.value() == Approx(84 / 11.5));
  CHECK(series.points[1].speedup_of_total.value() == Approx(150.0 / 65));
  CHECK(series.points[1].figures.metric.mean == 0.88);
  ColumnMap second = kMap;
  second.steady = {2, 2};
  runs = {read_other_table(folder / "log_hvd_8.csv", second), read_other_table(folder / "log_hvd_1.csv", second)};
  CHECK(reported_study("s", runs, {}).series[0].points[1].figures.speedup.value() == Approx(8));
}

TEST_CASE("the number of ranks comes from the file's name or from a column, and is one number") {
  const test::TemporaryFolder folder;
  ColumnMap map = kMap;
  map.ranks.clear();
  map.ranks_column = "gpus";
  const auto read = [&](const std::string& rows) {
    write_file_atomically(folder / "a.csv", "gpus,time_per_epoch,loss,iou,training_time\n" + rows);
    return read_other_table(folder / "a.csv", map);
  };
  CHECK(read("4,2,0.5,0.9,9\n4,2,x,0.9,9\n").ranks == 4);
  CHECK(read("4,2,0.5,0.9,9\n4,2,x,0.9,9\n").notes ==
        std::vector<std::string>{folder / "a.csv" + ", line 3: 'loss' is not a number; what is damaged is left out"});
  CHECK_THROWS_WITH(read("4,2,0.5,0.9,9\n8,2,0.5,0.9,9\n"), Catch::Contains("line 3: another number of ranks"));
  CHECK_THROWS_WITH(read("0,2,0.5,0.9,9\n"), Catch::Contains("not a whole number above 0"));
  CHECK_THROWS_WITH(read(""), Catch::Contains("not a whole number above 0"));
  write_file_atomically(folder / "log_hvd_0.csv", "time_per_epoch,loss,iou,training_time\n1,1,1,1\n");
  CHECK_THROWS_WITH(read_other_table(folder / "log_hvd_0.csv", kMap),
                    Catch::Contains("the number of ranks in its name"));
  write_file_atomically(folder / "log_hvd_2.csv", "time_per_epoch,loss\n1,1\n");
  CHECK_THROWS_WITH(read_other_table(folder / "log_hvd_2.csv", kMap),
                    Catch::Contains("has no column 'iou', which hvd.yaml names; it has time_per_epoch, loss"));
  CHECK_THROWS_AS(read_other_table(folder / "log_hvd_3.csv", kMap), MissingError);
}

TEST_CASE("each file is read by the map that its name fits") {
  ColumnMap native = kMap;
  native.name = "native.yaml";
  native.ranks = R"(log_(\d+)\.csv)";
  ColumnMap any = kMap;
  any.name = "any.yaml";
  any.ranks.clear();
  CHECK(map_of({kMap, native}, "logs/log_hvd_2.csv").name == "hvd.yaml");
  CHECK(map_of({kMap, native}, "log_12.csv").name == "native.yaml");
  CHECK(map_of({kMap, any}, "log_12.csv").name == "any.yaml");
  CHECK_THROWS_WITH(map_of({kMap, native}, "a.csv"),
                    R"(the name of a.csv does not fit hvd.yaml (ranks: 'log_hvd_(\d+)\.csv') or native.yaml (ranks: )"
                    R"('log_(\d+)\.csv'))");
  CHECK_THROWS_WITH(map_of({kMap, kMap}, "log_hvd_2.csv"), Catch::Contains("fits several maps"));
  CHECK(why_no_ranks_pattern(kMap.ranks).empty());
  CHECK(why_no_ranks_pattern("log_[0-9]+").find("needs one group") == 0);
  CHECK(why_no_ranks_pattern("log_(").find("is not a regular expression") == 0);
  CHECK(why_no_ranks_pattern(std::string(100'000, '(')) == "is longer than 1000 letters");
  CHECK(is_known_column("valid_iou"));
  CHECK_FALSE(is_known_column("loss"));
}
