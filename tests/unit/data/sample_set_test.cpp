#include "dtrain/data/generated/sample_set.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "dtrain/data/order/split.hpp"
#include "dtrain/io/files/file.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

// How far pixels differ from the mean of the 5 × 5 around them, for the largest hundredth: large if something is
// drawn there.
static double roughness(const Image& image, size_t channel) {
  const auto at = [&](int64_t y, int64_t x) {
    return static_cast<double>(image.bytes[static_cast<size_t>((y * image.width + x) * image.channels) + channel]);
  };
  std::vector<double> steps;
  for (int64_t y = 4; y + 4 < image.height; ++y)
    for (int64_t x = 4; x + 4 < image.width; ++x) {
      double near = 0;
      double far = 0;
      for (int64_t dy = -1; dy <= 1; ++dy)
        for (int64_t dx = -1; dx <= 1; ++dx) {
          near += at(y + dy, x + dx) / 9;
          far += at(y + 3 * dy, x + 3 * dx) / 9;
        }
      steps.push_back(std::abs(near - far));
    }
  std::sort(steps.begin(), steps.end());
  return steps[steps.size() - steps.size() / 100 - 1];
}

// Share of pairs (with, without) that the statistic orders rightly: 0.5 is chance.
static double auroc(const std::vector<double>& with, const std::vector<double>& without) {
  double right = 0;
  for (double a : with)
    for (double b : without) right += a > b ? 1 : a == b ? 0.5 : 0;
  return right / static_cast<double>(with.size() * without.size());
}

TEST_CASE("the xray set loads as NIH's, patients and all 14 findings included") {
  const TempFolder root;
  const SampleSetReport report = write_sample_set("xray", root / "new", 0, 1);
  CHECK(report.pictures == 256);
  // Where the shipped configuration is not, one can be drafted.
  const bool in_source = std::filesystem::exists("configs/quickstart.yaml");
  CHECK(holds(report.next_command, (in_source ? "data.root=" : "dtrain init ") + (root / "new")));
  DataOptions options = options_for("nih_cxr14", root / "new");
  options.labels = root / "new/Data_Entry_2017_v2020.csv";
  const Dataset data = open_dataset(options, Task::from_format, 1);
  CHECK(data.samples.size() == 256);
  CHECK(data.notes.empty());
  std::vector<int> positives(14, 0);
  std::map<std::string, int> patients;
  std::vector<double> with;
  std::vector<double> without;
  for (size_t i = 0; i < data.samples.size(); ++i) {
    const Sample& sample = data.samples[i];
    ++patients[sample.group];
    for (size_t k = 0; k < 14; ++k) positives[k] += sample.labels[k] == 1 ? 1 : 0;
    const bool any = std::count(sample.labels.begin(), sample.labels.end(), 1.0F) > 0;
    const Image picture = read_picture(data, static_cast<int64_t>(i));
    REQUIRE((picture.height == 256 && picture.width == 256 && picture.channels == 1));
    (any ? with : without).push_back(roughness(picture, 0));
  }
  CHECK(*std::min_element(positives.begin(), positives.end()) >= 5);
  CHECK(without.size() > with.size());
  CHECK(patients.size() < 150);
  CHECK(auroc(with, without) > 0.8);
  options.split.by = SplitOptions::By::patient;
  CHECK(split_dataset(data, options.split).warnings.empty());
}

TEST_CASE("the chips set loads as an image folder of two classes that differ") {
  const TempFolder root;
  CHECK(write_sample_set("chips", root.path(), 60, 1).pictures == 60);
  const DataOptions options = options_for("image_folder", root.path());
  const Dataset data = open_dataset(options, Task::from_format, 1);
  CHECK(data.classes == std::vector<std::string>{"defect", "good"});
  REQUIRE(data.samples.size() == 60);
  std::map<std::pair<int64_t, std::string>, int> kinds;  // class and ending: one must not reveal the other
  std::vector<double> with;
  std::vector<double> without;
  for (size_t i = 0; i < 60; ++i) {
    const Image picture = read_picture(data, static_cast<int64_t>(i));
    REQUIRE((picture.height == 128 && picture.width == 128 && picture.channels == 3));
    (data.samples[i].class_index == 0 ? with : without).push_back(roughness(picture, 1));
    ++kinds[{data.samples[i].class_index, data.samples[i].path.substr(data.samples[i].path.size() - 3)}];
  }
  CHECK(kinds.size() == 4);
  for (const auto& [kind, count] : kinds) CHECK(count == 15);
  CHECK(auroc(with, without) > 0.9);
  CHECK(split_dataset(data, {}).warnings.empty());
}

TEST_CASE("the cells set loads as images and masks, bright where the mask says so") {
  const TempFolder root;
  CHECK(write_sample_set("cells", root / "a/b", 6, 1).pictures == 6);
  const DataOptions options = options_for("image_mask", root / "a/b");
  const Dataset data = open_dataset(options, Task::from_format, 1);
  REQUIRE(data.samples.size() == 6);
  for (int64_t i = 0; i < 6; ++i) {
    const Image picture = read_picture(data, i);
    const Image mask = read_mask(data, i);
    REQUIRE((picture.height == 128 && picture.width == 160 && picture.channels == 1));
    std::vector<double> cell;
    std::vector<double> ground;
    for (size_t p = 0; p < mask.bytes.size(); p += 7) (mask.bytes[p] == 1 ? cell : ground).push_back(picture.bytes[p]);
    CHECK(cell.size() > 50);
    CHECK(auroc(cell, ground) > 0.95);
  }
}

TEST_CASE("pictures of another size show the same, and their bytes do not depend on the threads") {
  const TempFolder root;
  for (const auto& [kind, channel] : {std::pair("cells", "cells_0001.png"), std::pair("xray", "00000001_000.png")}) {
    write_sample_set(kind, root / (std::string(kind) + "1"), 5, 1, {96, 240});
    write_sample_set(kind, root / (std::string(kind) + "3"), 5, 1, {96, 240}, 3);
    const std::string file = std::string("/images/") + channel;
    CHECK(read_text(root / (std::string(kind) + "1" + file)) == read_text(root / (std::string(kind) + "3" + file)));
  }
  const CellPicture own = cell_picture(1, 0);
  const CellPicture large = cell_picture(1, 0, {256, 320});
  CHECK((large.picture.height == 256 && large.picture.width == 320));
  int64_t same = 0;
  for (int64_t y = 0; y < 128; ++y)
    for (int64_t x = 0; x < 160; ++x)
      same +=
          own.mask.bytes[static_cast<size_t>(y * 160 + x)] == large.mask.bytes[static_cast<size_t>(2 * (y * 320 + x))];
  CHECK(same == 128 * 160);
  CHECK(xray_picture(1, 1, 0, {3}, {512, 256}).height == 512);
  CHECK(chip_picture(1, 1, true, {500, 500}).bytes.size() == 500 * 500 * 3);
  CHECK(holds(error_of(64, [&] { write_sample_set("cells", root / "small", 2, 1, {8, 100}); }), "16 to 8192"));
}

TEST_CASE("a sample set is the same for a seed, and another for another") {
  const auto content = [](const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.is_regular_file())
        files[std::filesystem::relative(entry.path(), folder).string()] = read_text(entry.path().string());
    return files;
  };
  for (const std::string kind : {"chips", "xray", "cells"}) {
    const TempFolder root;
    write_sample_set(kind, root / "a", 5, 1);
    write_sample_set(kind, root / "b", 5, 1);
    write_sample_set(kind, root / "c", 5, 2);
    const auto first = content(root / "a");
    CHECK(first.size() >= 5);
    CHECK((first == content(root / "b")));
    CHECK((first != content(root / "c")));
  }
}

TEST_CASE("a folder that holds something, a strange kind and a negative count are refused") {
  const TempFolder root;
  root.text("mine.txt", "precious");
  CHECK(holds(error_of(64, [&] { write_sample_set("cells", root.path(), 2, 1); }), "not empty"));
  CHECK(holds(error_of(64, [&] { write_sample_set("cells", root / "mine.txt", 2, 1); }), "is a file"));
  CHECK(holds(error_of(64, [&] { write_sample_set("cell", root / "new", 2, 1); }), "did you mean 'cells'"));
  error_of(64, [&] { write_sample_set("cells", root / "new", -1, 1); });
  CHECK_FALSE(std::filesystem::exists(root / "new"));
}
