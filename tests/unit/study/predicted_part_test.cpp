#include "dtrain/study/predicted_part.hpp"

#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;

namespace {

PredictedPart part_of(const std::string& table, Task task = Task::multilabel, const std::string& metrics = "{}") {
  const test::TemporaryFolder folder;
  write_file_atomically(folder / "predictions_valid.csv", table);
  write_file_atomically(folder / "metrics_valid.json", metrics);
  return read_predictions(folder.path(), "valid", task);
}

const std::string kTwoScores = "path,score_Mass,score_Edema,label_Mass,label_Edema,patient\n";
const std::string kA =
    kTwoScores + "a.png,0.1,0.9,0,,7\nb.png,0.2,0.8,1,1,7\nc.png,0.3,0.7,0,0,\nd.png,0.4,0.6,1,0,2\n";

}  // namespace

TEST_CASE("predictions are read with their labels, patients and thresholds") {
  const PredictedPart part = part_of(
      kA, Task::multilabel,
      R"({"samples": 4, "weights_sha256": "ab12", "temperature": 1.5, "thresholds": {"Mass": 0.25, "Edema": 0.5},
                                         "thresholds_from": "valid:youden"})");
  CHECK(part.classes == std::vector<std::string>{"Mass", "Edema"});
  CHECK(part.paths == std::vector<std::string>{"a.png", "b.png", "c.png", "d.png"});
  CHECK(part.patients[1].value() == 7);
  CHECK_FALSE(part.patients[2]);
  CHECK(part.predictions.samples() == 4);
  CHECK(part.predictions.score(1, 1) == 0.8);
  CHECK(part.predictions.label(1, 0) == 1);
  CHECK(std::isnan(part.predictions.label(0, 1)));
  CHECK(part.predictions.thresholds == std::vector<double>{0.25, 0.5});
  CHECK(part.temperature.value() == 1.5);
  CHECK(part.thresholds_from == "valid:youden");
  CHECK(part.weights_sha256 == "ab12");
}

TEST_CASE("the samples of both are paired by path, with classes in the order of the first") {
  const PredictedPart b = part_of(
      "path,score_Edema,score_Mass,label_Edema,label_Mass,patient\n"
      "d.png,0.66,0.44,0,1,1\nx.png,0.5,0.5,1,1,\nc.png,0.77,0.33,0,0,1\nb.png,0.88,0.22,1,1,0\n");
  const SharedSamples shared = shared_samples(part_of(kA), b);
  CHECK(shared.only_a == 1);
  CHECK(shared.only_b == 1);
  CHECK(shared.a.scores == std::vector<double>{0.2, 0.8, 0.3, 0.7, 0.4, 0.6});
  CHECK(shared.b.scores == std::vector<double>{0.22, 0.88, 0.33, 0.77, 0.44, 0.66});
  CHECK(shared.a.labels == shared.b.labels);
  // c has no patient in A, but in B the one of d.
  CHECK(shared.groups.of == std::vector<int64_t>{0, 1, 1});
  CHECK(shared.groups.count == 2);
  CHECK(shared.groups.noun == "patient");
}

TEST_CASE("samples whose patient neither file knows are groups of their own") {
  const PredictedPart none = part_of("path,score_a,label_a,patient\nx,0.5,1,\ny,0.4,0,\n");
  CHECK(shared_samples(none, none).groups.noun == "sample");
  CHECK(shared_samples(none, none).groups.of == std::vector<int64_t>{0, 1});
  CHECK(shared_samples(part_of(kA), part_of(kA)).groups.noun == "group");
}

TEST_CASE("masks are read with the pixels of each class") {
  const std::string head = "path,iou,dice,patient,both_cell,predicted_cell,mask_cell,distance_cell\n";
  const PredictedPart part = part_of(head + "a.png,0.5,0.6,,10,20,15,2.5\nb.png,1,1,,0,0,0,\n", Task::segmentation);
  CHECK(part.classes == std::vector<std::string>{"cell"});
  CHECK(part.predictions.counts(0, 0).both == 10);
  CHECK(part.predictions.counts(0, 0).wanted == 15);
  CHECK(part.predictions.distances[0] == 2.5);
  CHECK(std::isnan(part.predictions.distances[1]));
  const PredictedPart larger = part_of(head + "a.png,0.5,0.6,,40,80,60,5\nb.png,1,1,,0,0,0,\n", Task::segmentation);
  CHECK(shared_samples(part, larger).other_masks == 1);
  CHECK(shared_samples(part, part).other_masks == 0);
  CHECK(shared_samples(part, part).no_distance == 0);
  const SharedSamples lone =
      shared_samples(part, part_of(head + "a.png,0,0,,0,0,15,\nb.png,1,1,,0,0,0,\n", Task::segmentation));
  CHECK(lone.no_distance == 1);
  CHECK(std::isnan(lone.a.distances[0]));
  CHECK_THROWS_WITH(part_of(head + "a.png,0.5,0.6,,-1,20,15,2.5\n", Task::segmentation),
                    Catch::Contains("line 2: 'both_cell' is not a count"));
}

TEST_CASE("predictions that cannot be compared are refused in one sentence") {
  const auto refused = [](const std::string& table, const std::string& why) {
    CHECK_THROWS_WITH(shared_samples(part_of(kA), part_of(table)), Catch::Contains(why));
  };
  refused(kTwoScores + "a.png,0.1,0.9,1,,7\n", "the labels of 1 sample differ between the two runs");
  refused(kTwoScores + "a.png,0.1,0.9,0,0,7\n", "the labels of 1 sample differ");
  refused(kTwoScores + "z.png,0.1,0.9,1,,7\n", "have no sample in common");
  refused(kTwoScores + "z.png,0.1,0.9,1,,7\na.png,0,0,0,,\na.png,0,0,0,,\n", "has two rows for a.png");
  refused("path,score_Mass,label_Mass,patient\na.png,0.1,0,7\n", "predict different classes");
  refused("path,score_Mass,label_Mass\na.png,0.1,0\n", "no column 'patient'");
  refused(kTwoScores + "a.png,x,0.9,1,,7\n", "line 2: 'score_Mass' is not a number");
  for (const char* score : {"", "nan", "7", "-0.1"})
    refused(kTwoScores + "a.png," + score + ",0.9,1,,7\n", "line 2: 'score_Mass' is not a probability");
  refused(kTwoScores + "a.png,0.1,0.9,0.5,,7\n", "line 2: 'label_Mass' is neither 0 nor 1");
  refused(kTwoScores + "a.png,0.1,0.9,0,,p7\n", "line 2: 'patient' is not a number");
  CHECK_THROWS_WITH(part_of(kA, Task::segmentation), Catch::Contains("no scores of a segmentation network"));
  CHECK_THROWS_WITH(part_of(kA, Task::multilabel, R"({"samples": 5})"),
                    Catch::Contains("are of different evaluations"));
  CHECK_THROWS_WITH(part_of(kA, Task::multilabel, R"({"samples": 4, "thresholds": {"Mass": 1}})"),
                    Catch::Contains("no threshold for each class"));
  const test::TemporaryFolder folder;
  CHECK_THROWS_AS(read_predictions(folder.path(), "test", Task::multilabel), MissingError);
  write_file_atomically(folder / "predictions_test.csv", kA);
  CHECK_THROWS_WITH(read_predictions(folder.path(), "test", Task::multilabel),
                    Catch::Contains("metrics_test.json is missing beside"));
}
