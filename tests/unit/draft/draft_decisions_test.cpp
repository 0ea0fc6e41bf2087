// What is chosen for pictures of some sizes, depths and numbers.
#include <algorithm>

#include "dtrain/draft/decisions.hpp"
#include "dtrain/draft/draft_text.hpp"
#include "support/catch.hpp"

using namespace dtrain;

namespace {

Survey survey_of_sizes(const std::map<std::pair<int64_t, int64_t>, int64_t>& sizes) {
  Survey survey;
  survey.sizes = sizes;
  for (const auto& [size, count] : sizes) survey.headers += count;
  survey.pictures = survey.headers;
  survey.decoded = 10;
  return survey;
}

Experiment chosen(const Survey& survey, Task task) {
  Drafted drafted;
  decide_pictures(survey, task, drafted);
  return drafted.experiment;
}

}  // namespace

TEST_CASE("the network follows from task, number and size of the pictures") {
  CHECK(chosen(survey_of_sizes({{{64, 64}, 5000}}), Task::multiclass).model.kind->name == "small_cnn");
  CHECK(chosen(survey_of_sizes({{{1024, 1024}, 90}}), Task::multilabel).model.kind->name == "small_cnn");
  CHECK(chosen(survey_of_sizes({{{1024, 1024}, 5000}}), Task::multilabel).model.kind->name == "densenet121");
  CHECK(chosen(survey_of_sizes({{{1024, 1024}, 5000}}), Task::segmentation).model.kind->name == "unet");
}

TEST_CASE("for few and for many pictures one network each is proposed") {
  using For = NetworkKind::ProposedFor;
  for (const For pictures : {For::few_or_small, For::many})
    CHECK(std::count_if(networks().begin(), networks().end(),
                        [&](const NetworkKind* kind) { return kind->proposed_for == pictures; }) == 1);
}

TEST_CASE("every size that is chosen is one that the network takes") {
  for (const Task task : {Task::multiclass, Task::segmentation})
    for (const int64_t height : {1, 7, 24, 100, 250, 512, 700, 3000})
      for (const int64_t width : {1, 9, 28, 130, 256, 696, 4096}) {
        const Experiment e = chosen(survey_of_sizes({{{height, width}, 300}}), task);
        INFO(height << " x " << width << " gives " << e.data.image.height << " x " << e.data.image.width);
        CHECK(wrong_size(e.model, e.data.image.height, e.data.image.width, "data.image.size").empty());
        CHECK(std::max(e.data.image.height, e.data.image.width) <= 512);
      }
}

TEST_CASE("pictures of one fitting size keep it; those of different proportions are padded to a square") {
  const Experiment same = chosen(survey_of_sizes({{{48, 64}, 30}}), Task::segmentation);
  CHECK(same.data.image.height == 48);
  CHECK(same.data.image.width == 64);
  CHECK(same.data.image.resize == Resize::squash);
  const Experiment mixed =
      chosen(survey_of_sizes({{{256, 256}, 30}, {{520, 696}, 10}, {{256, 400}, 4}}), Task::segmentation);
  CHECK(mixed.data.image.resize == Resize::pad);
  CHECK(mixed.data.image.height == mixed.data.image.width);
  CHECK(chosen(survey_of_sizes({{{28, 28}, 90}}), Task::multiclass).data.image.height == 28);
}

TEST_CASE("colour only where pixels have some; 12 bits in 16 get their range") {
  Survey survey = survey_of_sizes({{{64, 64}, 40}});
  survey.coloured = 40;  // by their headers
  CHECK(chosen(survey, Task::multiclass).data.image.channels == 1);
  survey.decoded_colour = 1;
  CHECK(chosen(survey, Task::multiclass).data.image.channels == 3);
  CHECK(chosen(survey, Task::multiclass).data.image.range_high == 0);
  survey.pixels.add("a.png", 16, 3, 3900);
  CHECK(chosen(survey, Task::multiclass).data.image.range_high == 4095);
  survey.pixels.add("b.png", 8, 0, 255);  // of another depth: no range fits both
  CHECK(chosen(survey, Task::multiclass).data.image.range_high == 0);
}

TEST_CASE("lines stand in the order of the documentation, reasons beside or above, comments with their group") {
  Experiment e;
  e.data.root = "/data/it's #1";
  e.data.labels = "/data/it's #1/a.csv";
  const std::string long_reason(120, 'x');
  const std::string text = draft_yaml(e, {{"data.labels", long_reason},
                                          {"data.root", "here\nthere"},
                                          {"loss.pos_weight", "", true, "balanced"},
                                          {"data.classes", "", true, "[a]"}});
  CHECK(text ==
        "# loss: {pos_weight: balanced}\n\ndata:\n  root: \"/data/it's #1\"                 # here\\nthere\n  # " +
            long_reason + "\n  labels: \"a.csv\"\n  # classes: [a]\n");
}

TEST_CASE("a group's text holds what differs from the defaults") {
  Experiment e;
  CHECK(text_of_group(e, "data.split").empty());
  e.data.split.folders = {{"train", "a"}, {"test", "b"}};
  e.data.split.valid = 0.25;
  CHECK(text_of_group(e, "data.split") == "{valid: 0.25, folders: {train: a, test: b}}");
}
