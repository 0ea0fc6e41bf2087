#include "unit/data/folder.hpp"
#include "unit/data/tiff_stack.hpp"

using namespace dtrain;
using namespace dtrain::test;

static const std::string kDescription =
    R"({"channel_names": {"0": "grey"}, "labels": {"background": 0, "nucleus": 2, "cell": 1},
        "numTraining": 2, "file_ending": ".png"})";

static Image mask(std::vector<uint8_t> values) { return {2, 2, 1, 8, std::move(values), {}}; }

static DataOptions nnunet(const TempFolder& root, const std::string& description = kDescription) {
  for (const char* name : {"imagesTr/cell_007_0000.png", "imagesTr/cell_012_0000.png"})
    root.picture(name, mask({9, 8, 7, 6}));
  root.picture("labelsTr/cell_007.png", mask({0, 1, 2, 1}));
  root.picture("labelsTr/cell_012.png", mask({0, 0, 2, 3}));
  root.text("dataset.json", description);
  return options_for("image_mask", root.path());
}

TEST_CASE("a folder laid out for nnU-Net gives its cases, with the labels of dataset.json") {
  const TempFolder root;
  const DataOptions options = nnunet(root);
  const Dataset data = dataset_at(options);
  CHECK(data.task == Task::segmentation);
  CHECK(data.classes == std::vector<std::string>{"cell", "nucleus"});
  REQUIRE(paths_of(data) == std::vector<std::string>{"imagesTr/cell_007_0000.png", "imagesTr/cell_012_0000.png"});
  CHECK(data.samples[0].masks == std::vector<std::string>{"labelsTr/cell_007.png"});
  CHECK(read_mask(data, 0).bytes == std::vector<uint8_t>{0, 1, 2, 1});
  CHECK(read_mask(data, 1).bytes == std::vector<uint8_t>{0, 0, 2, 0});
  CHECK(data.notes.empty());
  root.picture("imagesTs/cell_020_0000.png");
  CHECK(holds(dataset_at(options).notes.at(0), "imagesTs/ left out"));
  DataOptions named = options;
  named.image_mask.images = "imagesTr";
  named.image_mask.masks = "labelsTr";
  CHECK(dataset_at(named).manifest_sha256 == data.manifest_sha256);
  root.text("dataset.json", R"({"labels": {"background": 0, "cell": 2, "nucleus": 1}, "file_ending": ".png"})");
  CHECK(dataset_at(options).manifest_sha256 != data.manifest_sha256);
}

TEST_CASE("a folder of nnU-Net's without its dataset.json is told what is missing") {
  const TempFolder root;
  const DataOptions options = nnunet(root);
  std::filesystem::remove(root.path() + "/dataset.json");
  CHECK(
      holds(error_of(66, [&] { dataset_at(options); }), "but not the dataset.json that describes one; copy it there"));
}

TEST_CASE("folders named beside nnU-Net's own, which would do nothing, are refused") {
  const TempFolder root;
  DataOptions options = nnunet(root);
  options.image_mask.images = "pictures";
  CHECK(holds(error_of(78, [&] { dataset_at(options); }), "data.image_mask.images pictures has no effect here"));
  options.image_mask.images = "imagesTr";
  options.image_mask.masks = "segmentations";
  CHECK(holds(error_of(78, [&] { dataset_at(options); }), "data.image_mask.masks segmentations has no effect here"));
}

TEST_CASE("mask_values win over the labels of dataset.json") {
  const TempFolder root;
  DataOptions options = nnunet(root);
  options.image_mask.mask_values = {{1, 1}, {2, 1}};
  const Dataset data = dataset_at(options);
  CHECK(data.classes == std::vector<std::string>{"foreground"});
  CHECK(read_mask(data, 0).bytes == std::vector<uint8_t>{0, 1, 1, 1});
}

TEST_CASE("what nnU-Net has and dtrain does not read is refused with what to do") {
  const auto refusal = [](const std::string& description) {
    const TempFolder root;
    const DataOptions options = nnunet(root, description);
    return error_of(65, [&] { dataset_at(options); });
  };
  const auto with_labels = [](const std::string& labels) {
    return R"({"file_ending": ".png", "labels": )" + labels + "}";
  };
  CHECK(
      holds(refusal(R"({"labels": {"background": 0, "a": 1}, "file_ending": ".nii.gz"})"), "NIfTI volumes (.nii.gz)"));
  CHECK(holds(refusal(R"({"modality": {"0": "MRI"}, "labels": {"0": "background", "1": "a"}})"),
              "nnU-Net's first version"));
  CHECK(holds(refusal(R"({"labels": {"background": 0, "a": 1}, "file_ending": ".mha"})"), "file_ending '.mha'"));
  CHECK(holds(refusal("[1, 2]"), "is not a JSON object"));
  CHECK(holds(refusal("[1, 2"), "is not JSON (byte"));
  CHECK(holds(refusal(R"({"file_ending": ".png"})"), "has no labels"));
  CHECK(holds(refusal(with_labels(R"({"background": 0, "whole": [1, 2]})")), "'whole' is a region"));
  CHECK(holds(refusal(with_labels(R"({"background": 0, "a": 1, "ignore": 2})")), "ignore label"));
  CHECK(holds(refusal(with_labels(R"({"background": 0, "a": "1"})")), "wants a pixel value"));
  CHECK(holds(refusal(with_labels(R"({"background": 0, "a": 1, "b": 1})")), "the pixel value 1 two labels"));
  CHECK(holds(refusal(with_labels(R"({"a": 1})")), "the value 0, the background"));
  CHECK(holds(refusal(with_labels(R"({"background": 0})")), "0 labels besides the background"));
  CHECK(holds(refusal(R"({"labels": {"background": 0, "a": 1}, "file_ending": ".png", "numTraining": 5})"),
              "numTraining 5, but imagesTr/ holds 2 cases"));
}

TEST_CASE("JSON of 200,000 levels in dataset.json is a sentence, and no message shows what stands there") {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const auto refusal = [](const std::string& description) {
    const TempFolder root;
    const DataOptions options = nnunet(root, description);
    return error_of(65, [&] { dataset_at(options); });
  };
  const std::string labels = R"("labels": {"background": 0, "a": 1})";
  CHECK(holds(refusal(R"({"file_ending": )" + deep + ", " + labels + "}"), "deeper than 64 levels"));
  CHECK(holds(refusal(R"({"file_ending": ".png", "labels": {"background": )" + deep + "}}"), "deeper than"));
  CHECK(holds(refusal(R"({"file_ending": ".png", "numTraining": )" + deep + ", " + labels + "}"), "deeper than"));
  const std::string lists = "[[\"" + std::string(5000, 'x') + "\"]]";
  CHECK(holds(refusal(R"({"file_ending": )" + lists + ", " + labels + "}"), "file_ending is a list; it wants a text"));
  CHECK(holds(refusal(R"({"file_ending": ".png", "labels": {"background": {"a": )" + lists + "}}}"), "not an object"));
  CHECK(
      holds(refusal(R"({"file_ending": ".png", "numTraining": )" + lists + ", " + labels + "}"), "numTraining a list"));
}

TEST_CASE("cases of nnU-Net without a channel, with a second one or without a partner are listed") {
  const TempFolder root;
  const DataOptions options = nnunet(root);
  root.picture("imagesTr/cell_013_0000.png");
  root.picture("imagesTr/cell_007_0001.png");
  root.picture("imagesTr/plain.png");
  root.picture("labelsTr/cell_020.png");
  const std::string sentence = error_of(65, [&] { dataset_at(options); });
  CHECK(holds(sentence, "(4 problems)"));
  CHECK(holds(sentence, "image without mask: imagesTr/cell_013_0000.png"));
  CHECK(holds(sentence, "cases of 2 channels, each in a separate file (CASE_0000, CASE_0001; cell_007_0001.png)"));
  CHECK(holds(sentence, "as in CASE_0000.png: plain.png"));
  CHECK(holds(sentence, "mask without image: labelsTr/cell_020.png"));
  std::filesystem::remove_all(root / "labelsTr");
  CHECK(holds(error_of(66, [&] { dataset_at(options); }), "no labelsTr/"));
}

TEST_CASE("channels that dataset.json counts are read, and of all cases") {
  const TempFolder root;
  DataOptions options = nnunet(
      root, R"({"channel_names": {"0": "T1", "1": "T2"}, "labels": {"background": 0, "a": 1}, "file_ending": ".png"})");
  take_own_channels(options);
  CHECK(options.image.files.empty());  // a colour picture has several names, but one file
  root.picture("imagesTr/cell_007_0001.png", mask({5, 6, 7, 8}));
  root.picture("imagesTr/cell_012_0001.png", mask({5, 6, 7, 8}));
  take_own_channels(options);
  CHECK(options.image.files == std::vector<std::string>{"_0000", "_0001"});
  CHECK(options.image.channels == 2);
  const Dataset data = dataset_at(options);
  REQUIRE(data.samples.size() == 2);
  CHECK(data.samples[0].path == "imagesTr/cell_007_0000.png");
  CHECK(data.samples[0].masks == std::vector<std::string>{"labelsTr/cell_007.png"});
  CHECK(read_picture(data, 0).channels == 2);
  CHECK(read_picture(data, 0).bytes[1] == 5);
  std::filesystem::remove(root / "imagesTr/cell_012_0001.png");
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "cell_012_0001.png, beside cell_012_0000.png"));
}

TEST_CASE("channels of nnU-Net that dataset.json does not count are told in one sentence for all cases") {
  const TempFolder root;
  const DataOptions options = nnunet(root);
  for (const char* channel : {"_0001.png", "_0002.png"})
    for (const char* name : {"cell_007", "cell_012"}) root.picture(std::string("imagesTr/") + name + channel);
  const std::string sentence = error_of(65, [&] { dataset_at(options); });
  CHECK(holds(sentence, "(1 problem)"));
  CHECK(holds(sentence, "cases of 3 channels"));
  CHECK(holds(sentence, "CASE_0000, CASE_0001, CASE_0002; cell_007_0001.png"));
  CHECK(holds(sentence, "channel_names in dataset.json does not count so many"));
  CHECK(!holds(sentence, "cell_012"));
}

static std::string mask_stack(int pages, uint8_t value) {
  std::vector<Image> images;
  for (int i = 0; i < pages; ++i) images.push_back(mask({0, value, static_cast<uint8_t>(i), 0}));
  return tiff_stack(images);
}

TEST_CASE("stacks of nnU-Net are paired page by page, and a case is a case however many pages it has") {
  const TempFolder root;
  const DataOptions options = nnunet(root);
  std::filesystem::remove(root / "imagesTr/cell_012_0000.png");
  std::filesystem::remove(root / "labelsTr/cell_012.png");
  root.text("imagesTr/cell_012_0000.tif", mask_stack(11, 9));
  root.text("labelsTr/cell_012.tif", mask_stack(11, 1));
  const Dataset data = dataset_at(options);  // numTraining is 2
  REQUIRE(data.samples.size() == 12);
  CHECK(data.samples[2].path == "imagesTr/cell_012_0000.tif#2");
  for (size_t i = 1; i < 12; ++i) {
    const std::string page = "#" + std::to_string(i);
    CHECK(data.samples[i].path == "imagesTr/cell_012_0000.tif" + page);
    CHECK(data.samples[i].masks == std::vector<std::string>{"labelsTr/cell_012.tif" + page});
  }
  CHECK(read_picture(data, 2).bytes == std::vector<uint8_t>{0, 9, 1, 0});
  CHECK(read_mask(data, 2).bytes == std::vector<uint8_t>{0, 1, 1, 0});
  root.text("labelsTr/cell_012.tif", mask_stack(3, 1));
  const std::string unequal = error_of(65, [&] { dataset_at(options); });
  CHECK(holds(unequal, "(1 problem); add what is missing"));
  CHECK(holds(unequal, "imagesTr/cell_012_0000.tif has 11 pages, its mask has 3"));
  root.text("labelsTr/cell_012.tif", mask_stack(11, 1));
  root.text("imagesTr/cell_012_0000.tiff", mask_stack(2, 9));
  const std::string twice = error_of(65, [&] { dataset_at(options); });
  CHECK(holds(twice, "(1 problem); add what is missing"));
  CHECK(holds(twice, "two images of one case: imagesTr/cell_012_0000.tif, imagesTr/cell_012_0000.tiff"));
}
