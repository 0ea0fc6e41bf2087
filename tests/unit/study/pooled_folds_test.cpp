#include "dtrain/study/pooled_folds.hpp"

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;

namespace {

struct Evaluations {
  test::TemporaryFolder folder;
  std::vector<EvaluatedFold> folds;

  void add(const std::string& table, const std::string& metrics = "{}") {
    const auto fold = static_cast<int64_t>(folds.size()) + 1;
    folds.push_back({fold, folder / std::to_string(fold)});
    make_folders(folds.back().folder);
    write_file_atomically(folds.back().folder + "/predictions_valid.csv", table);
    write_file_atomically(folds.back().folder + "/metrics_valid.json", metrics);
  }
};

const std::string kHead = "path,score_a,score_b,label_a,label_b,patient\n";

}  // namespace

TEST_CASE("folds are pooled in their order, and a patient of two folds is one group") {
  Evaluations made;
  made.add(kHead + "p.png,0.1,0.9,0,1,7\nq.png,0.2,0.8,0,,8\n");
  made.add(kHead + "\"r,s.png\",0.3,0.7,1,0,7\nt.png,0.4,0.6,1,1,9\n", R"({"samples": 2, "temperature": 1.5})");
  const PooledFolds pooled = pool_folds(made.folds, Task::multilabel);
  CHECK(pooled.classes == std::vector<std::string>{"a", "b"});
  CHECK(pooled.predictions.samples() == 4);
  CHECK(pooled.predictions.scores == std::vector<double>{0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.4, 0.6});
  CHECK(pooled.predictions.label(2, 0) == 1);
  CHECK(pooled.groups.of == std::vector<int64_t>{0, 1, 0, 2});
  CHECK(pooled.groups.count == 3);
  CHECK(pooled.groups.noun == "patient");
  CHECK(pooled.fitted);
  CHECK(pooled.csv ==
        "fold,path,score_a,score_b,label_a,label_b,patient\n"
        "1,p.png,0.1,0.9,0,1,7\n1,q.png,0.2,0.8,0,,8\n"
        "2,\"r,s.png\",0.3,0.7,1,0,7\n2,t.png,0.4,0.6,1,1,9\n");
}

TEST_CASE("what is pooled is a table of predictions itself") {
  Evaluations made;
  made.add("path,iou,dice,patient,both_cell,predicted_cell,mask_cell,distance_cell\na.png,0.5,0.6,,10,20,15,2.5\n");
  made.add("path,iou,dice,patient,both_cell,predicted_cell,mask_cell,distance_cell\nb.png,1,1,,0,0,0,\n");
  const PooledFolds pooled = pool_folds(made.folds, Task::segmentation);
  CHECK(pooled.groups.noun == "sample");
  CHECK_FALSE(pooled.fitted);
  write_file_atomically(made.folder / "predictions_pooled.csv", pooled.csv);
  write_file_atomically(made.folder / "metrics_pooled.json", "{}");
  const PredictedPart again = read_predictions(made.folder.path(), "pooled", Task::segmentation);
  CHECK(again.paths == std::vector<std::string>{"a.png", "b.png"});
  CHECK(again.predictions.counts(0, 0).both == 10);
  CHECK(pooled.predictions.counts(1, 0).wanted == 0);
}

TEST_CASE("tables that are not folds of one split are refused") {
  Evaluations twice;
  twice.add(kHead + "p.png,0.1,0.9,0,1,7\n");
  twice.add(kHead + "p.png,0.1,0.9,0,1,7\n");
  CHECK_THROWS_AS(pool_folds(twice.folds, Task::multilabel), DataError);
  Evaluations others;
  others.add(kHead + "p.png,0.1,0.9,0,1,7\n");
  others.add("path,score_a,label_a,patient\nq.png,0.1,0,7\n");
  CHECK_THROWS_AS(pool_folds(others.folds, Task::multilabel), DataError);
  others.folds.back().folder += "/none";
  CHECK_THROWS_AS(pool_folds(others.folds, Task::multilabel), MissingError);
}
