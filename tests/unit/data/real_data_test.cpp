// Real pictures, if DTRAIN_TEST_DATA names the folder that holds the data sets.
#include <cmath>
#include <filesystem>

#include "dtrain/base/time.hpp"
#include "dtrain/data/order/split.hpp"
#include "dtrain/io/files/csv.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

// The data set's folder, or "" after a counted skip.
static std::string real_folder(const std::string& name) {
  const char* base = std::getenv("DTRAIN_TEST_DATA");
  const std::string folder = base == nullptr ? "" : std::string(base) + "/" + name;
  if (!folder.empty() && std::filesystem::is_directory(folder)) return folder;
  skip(("DTRAIN_TEST_DATA names no folder with " + name).c_str());
  return "";
}

TEST_CASE("the 64-pixel NIH folders share patients, 7, 3 and 1, and say so") {
  const std::string root = real_folder("nih_cxr14_64");
  if (root.empty()) return;
  const Dataset data = open_dataset(options_for("image_folder", root), Task::from_format, 1);
  CHECK(data.classes == std::vector<std::string>{"0_normal", "1_abnormal"});
  CHECK(data.samples.size() == 427);
  const Split split = split_dataset(data, {});
  REQUIRE(split.warnings.size() == 3);
  CHECK(holds(split.warnings[0], "7 patients in both train and valid"));
  CHECK(holds(split.warnings[1], "3 patients in both train and test"));
  CHECK(holds(split.warnings[2], "1 patient in both valid and test"));
}

TEST_CASE("the NIH table of the 64-pixel set gives its counted labels, and the folders' parts") {
  const std::string root = real_folder("nih_cxr14_64");
  if (root.empty()) return;
  DataOptions options = options_for("nih_cxr14", root);
  options.labels = root + "/labels_subset.csv";
  const Dataset data = open_dataset(options, Task::from_format, 1);
  REQUIRE(data.samples.size() == 427);
  std::vector<int> positives(14, 0);
  for (const Sample& sample : data.samples)
    for (size_t k = 0; k < 14; ++k) positives[k] += sample.labels[k] == 1 ? 1 : 0;
  CHECK(positives == std::vector<int>{41, 44, 78, 63, 5, 18, 4, 10, 24, 22, 10, 17, 14, 0});
  CHECK(split_dataset(data, {}).warnings.size() == 3);
  options.split.by = SplitOptions::By::patient;
  options.split.given = true;
  CHECK(split_dataset(data, options.split).warnings.empty());
}

TEST_CASE("nuclei unite their masks, membranes take zero as a class") {
  const std::string nuclei = real_folder("dsb2018_nuclei");
  if (nuclei.empty()) return;
  DataOptions options = options_for("image_mask", nuclei);
  const Dataset data = open_dataset(options, Task::from_format, 1);
  CHECK(data.samples.size() == 60);
  size_t masks = 0;
  for (const Sample& sample : data.samples) masks += sample.masks.size();
  CHECK(masks == 2567);
  const Image mask = read_mask(data, 0);
  const Image picture = read_picture(data, 0);
  CHECK_NOTHROW(require_same_size(data, 0, picture, mask));
  const auto covered =
      static_cast<double>(std::count(mask.bytes.begin(), mask.bytes.end(), 1)) / static_cast<double>(mask.bytes.size());
  CHECK((covered > 0.005 && covered < 0.8));

  const std::string membrane = real_folder("isbi2012_membrane");
  if (membrane.empty()) return;
  options = options_for("image_mask", membrane);
  options.image_mask = {.images = "image", .masks = "label", .mask_suffix = "", .mask_values = {{0, 1}}};
  const Dataset slices = open_dataset(options, Task::from_format, 1);
  REQUIRE(slices.samples.size() == 20);
  CHECK(slices.samples[2].path == "image/2.png");
  const Image walls = read_mask(slices, 2);
  const double share = static_cast<double>(std::count(walls.bytes.begin(), walls.bytes.end(), 1)) /
                       static_cast<double>(walls.bytes.size());
  CHECK((share > 0.15 && share < 0.3));
}

TEST_CASE("a csv that names pictures the folder lacks lists them, or does without") {
  const std::string root = real_folder("covid_chestxray");
  if (root.empty()) return;
  DataOptions options = options_for("csv", root);
  options.labels = root + "/metadata.csv";
  options.csv.path = "filename";
  options.csv.label = "finding";
  options.csv.separator = ",";
  const std::string sentence = error_of(66, [&] { open_dataset(options, Task::from_format, 1); });
  CHECK(holds(sentence, "names 707 pictures"));
  CHECK(holds(sentence, "more"));
  options.on_missing = OnMissing::skip;
  const Dataset rest = open_dataset(options, Task::from_format, 1);
  CHECK(rest.samples.size() == 51);
  CHECK(holds(rest.notes.at(0), "707 rows of metadata.csv left out"));
}
