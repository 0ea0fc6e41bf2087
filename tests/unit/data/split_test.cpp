#include "dtrain/data/split.hpp"

#include <map>
#include <set>

#include "dtrain/base/random.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

// `per_group` pictures of each patient, natural order.
static Dataset patients(int64_t groups, int64_t per_group) {
  Dataset data;
  data.task = Task::multilabel;
  data.format = DataFormat::nih_cxr14;
  data.root = "/data";
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t i = 0; i < per_group; ++i) {
      Sample sample;
      sample.path = "p" + std::to_string(g) + "_" + std::to_string(i) + ".png";
      sample.group = "patient" + std::to_string(g);
      data.samples.push_back(sample);
    }
  return data;
}

static void check_partition(const Split& split, size_t samples) {
  std::vector<int> seen(samples, 0);
  for (const auto* part : {&split.train, &split.valid, &split.test}) {
    CHECK(std::is_sorted(part->begin(), part->end()));
    for (int64_t sample : *part) ++seen[static_cast<size_t>(sample)];
  }
  CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<int64_t>(samples));
}

TEST_CASE("a split by sample hits its counts and depends on the seed alone") {
  const Dataset data = patients(100, 1);
  SplitOptions options;
  options.valid = 0.15;
  options.test = 0.2;
  const Split split = split_dataset(data, options);
  CHECK(split.valid.size() == 15);
  CHECK(split.test.size() == 20);
  check_partition(split, 100);
  CHECK(split_dataset(data, options).sha256 == split.sha256);
  CHECK(split_dataset(data, options).valid == split.valid);
  CHECK(split.warnings.empty());
  options.seed = 2;
  CHECK(split_dataset(data, options).sha256 != split.sha256);
}

TEST_CASE("a split by patient never parts a patient, and hits its counts to half a patient") {
  SplitOptions options;
  options.by = SplitOptions::By::patient;
  options.valid = 0.1;
  options.test = 0.25;
  const Dataset data = patients(40, 5);
  for (options.seed = 1; options.seed <= 20; ++options.seed) {
    const Split split = split_dataset(data, options);
    check_partition(split, 200);
    CHECK(split.valid.size() == 20);
    CHECK(split.test.size() == 50);
    CHECK(split.warnings.empty());
    std::map<std::string, std::set<int>> parts;
    for (int64_t i : split.train) parts[data.samples[static_cast<size_t>(i)].group].insert(0);
    for (int64_t i : split.valid) parts[data.samples[static_cast<size_t>(i)].group].insert(1);
    for (int64_t i : split.test) parts[data.samples[static_cast<size_t>(i)].group].insert(2);
    for (const auto& [group, in] : parts) CHECK(in.size() == 1);
  }
}

TEST_CASE("a split by sample that parts patients warns with counts and files, not with patients") {
  const Split split = split_dataset(patients(40, 5), {});
  REQUIRE(split.warnings.size() == 1);
  CHECK(holds(split.warnings[0], "split leak"));
  CHECK(holds(split.warnings[0], ".png"));
  CHECK_FALSE(holds(split.warnings[0], "patient1"));
}

TEST_CASE("a split by order takes the last ones for test, those before for validation") {
  SplitOptions options;
  options.by = SplitOptions::By::order;
  options.valid = 0.2;
  options.test = 0.1;
  const Split split = split_dataset(patients(10, 1), options);
  CHECK(split.train == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6});
  CHECK(split.valid == std::vector<int64_t>{7, 8});
  CHECK(split.test == std::vector<int64_t>{9});
}

TEST_CASE("a split by patient needs patients, and something to train on") {
  Dataset data = patients(10, 1);
  for (Sample& sample : data.samples) sample.group.clear();
  SplitOptions options;
  options.by = SplitOptions::By::patient;
  CHECK(holds(error_of(78, [&] { split_dataset(data, options); }), "patients"));
  options.by = SplitOptions::By::sample;
  options.valid = 1;
  error_of(78, [&] { split_dataset(data, options); });
  options.valid = 0.9;
  Dataset one = patients(1, 1);
  CHECK(holds(error_of(78, [&] { split_dataset(one, options); }), "training"));
}

TEST_CASE("a patient too large for a part is passed over for the next one") {
  Dataset data = patients(1, 80);
  for (const Sample& small : patients(20, 1).samples) {
    data.samples.push_back(small);
    data.samples.back().path = "small_" + small.path;
    data.samples.back().group = "small_" + small.group;
  }
  SplitOptions options;
  options.by = SplitOptions::By::patient;
  options.valid = options.test = 0.1;
  for (options.seed = 1; options.seed <= 50; ++options.seed) {  // wherever the large one stands in the order
    const Split split = split_dataset(data, options);
    check_partition(split, 100);
    CHECK(split.valid.size() == 10);
    CHECK(split.test.size() == 10);
  }
}

TEST_CASE("a part with a share gets a group, however small the share") {
  SplitOptions options;
  options.valid = 0.01;
  options.by = SplitOptions::By::patient;
  CHECK(split_dataset(patients(2, 5), options).valid.size() == 5);
  for (options.by = SplitOptions::By::sample; true; options.by = SplitOptions::By::order) {
    options.valid = options.test = 0.01;
    const Split split = split_dataset(patients(3, 1), options);
    CHECK(split.train.size() == 1);
    CHECK(split.valid.size() == 1);
    CHECK(split.test.size() == 1);
    options.test = 0;
    CHECK(split_dataset(patients(3, 1), options).test.empty());
    if (options.by == SplitOptions::By::order) break;
  }
}

TEST_CASE("a part with a share that stays empty is an error that names its key") {
  SplitOptions options;
  options.by = SplitOptions::By::patient;
  const std::string valid = error_of(78, [&] { split_dataset(patients(1, 20), options); });
  CHECK(holds(valid, "data.split.valid 0.1 gets no sample: 1 patient cannot fill training"));
  options.valid = 0;
  CHECK(split_dataset(patients(1, 20), options).train.size() == 20);
  options.test = 0.5;
  CHECK(holds(error_of(78, [&] { split_dataset(patients(1, 20), options); }), "data.split.test 0.5"));
  options.valid = 0.2;
  options.by = SplitOptions::By::order;
  CHECK(holds(error_of(78, [&] { split_dataset(patients(2, 1), options); }), "2 samples cannot fill training"));
}

TEST_CASE("an image folder whose file names tell no patients is not split by patient") {
  const TempFolder root;
  for (const char* name : {"a/img_1.png", "a/img_2.png", "b/0001.png", "b/0002.png"}) root.picture(name);
  const Dataset data = open_dataset(options_for(DataFormat::image_folder, root.path()), Task::from_format, 1);
  SplitOptions options;
  options.by = SplitOptions::By::patient;
  CHECK(holds(error_of(78, [&] { split_dataset(data, options); }), "the file names tell no patients"));
  root.picture("b/0003_1.png");
  root.picture("b/0003_2.png");
  const Dataset told = open_dataset(options_for(DataFormat::image_folder, root.path()), Task::from_format, 1);
  CHECK_FALSE(split_dataset(told, options).train.empty());
}

TEST_CASE("a byte-order mark before a list file is no part of the first name") {
  const TempFolder root;
  Dataset data = patients(2, 1);
  data.root = root.path();
  root.text("train.txt", "\xEF\xBB\xBFp0_0.png\n");
  root.text("valid.txt", "p1_0.png\n");
  SplitOptions options;
  options.files = {{"train", "train.txt"}, {"valid", "valid.txt"}};
  CHECK(split_dataset(data, options).train == std::vector<int64_t>{0});
}

TEST_CASE("list files name parts by path, base name or first word") {
  const TempFolder root;
  Dataset data = patients(3, 2);
  data.root = root.path();
  data.samples[0].path = "deep/p0_0.png";
  root.text("lists/train.txt", "deep/p0_0.png\n\n  p0_1.png 0 1 0 1\r\np1_0.png\n");
  root.text("valid.txt", "p2_0.png\np2_1.png\n");
  SplitOptions options;
  options.files = {{"train", "lists/train.txt"}, {"valid", root / "valid.txt"}};
  const Split split = split_dataset(data, options);
  CHECK(split.train == std::vector<int64_t>{0, 1, 2});
  CHECK(split.valid == std::vector<int64_t>{4, 5});
  REQUIRE(split.warnings.size() == 1);
  CHECK(holds(split.warnings[0], "1 sample in no part"));

  root.text("valid.txt", "p2_0.png\np9.png\n");
  CHECK(holds(error_of(66, [&] { split_dataset(data, options); }), "valid.txt:2: 'p9.png'"));
  root.text("valid.txt", "p2_0.png\np1_0.png\n");
  CHECK(holds(error_of(65, [&] { split_dataset(data, options); }), "valid.txt:2: 'p1_0.png', already in train"));
  data.samples[5].path = "other/p2_0.png";
  root.text("valid.txt", "p2_0.png\n");
  CHECK(split_dataset(data, options).valid == std::vector<int64_t>{4});  // the whole path wins
  data.samples[4].path = "some/p2_0.png";
  CHECK(holds(error_of(65, [&] { split_dataset(data, options); }), "several pictures"));
  options.files["test"] = "none.txt";
  CHECK(holds(error_of(66, [&] { split_dataset(data, options); }), "data.split.files.test"));
}

TEST_CASE("parts by folder hold what lies beneath them, and a shared patient is a leak") {
  const TempFolder root;
  for (const char* name : {"train/a/00001_1.png", "train/a/00002_1.png", "valid/a/00002_2.png", "valid/a/00003_1.png"})
    root.picture(name);
  const Dataset data = open_dataset(options_for(DataFormat::image_folder, root.path()), Task::from_format, 1);
  const Split told = split_dataset(data, {});
  CHECK(told.train == std::vector<int64_t>{0, 1});
  CHECK(told.valid == std::vector<int64_t>{2, 3});
  REQUIRE(told.warnings.size() == 1);
  CHECK(holds(told.warnings[0], "1 patient in both train and valid"));
  CHECK(holds(told.warnings[0], "train/a/00002_1.png and valid/a/00002_2.png"));

  SplitOptions options;
  options.folders = {{"train", "valid"}, {"valid", "train"}};
  CHECK(split_dataset(data, options).train == std::vector<int64_t>{2, 3});
  options.folders = {{"train", "valid"}, {"valid", "trai"}};
  CHECK(holds(error_of(66, [&] { split_dataset(data, options); }), "data.split.folders.valid"));
  options.folders = {{"train", "valid"}, {"valid", "valid/a"}};
  CHECK(holds(error_of(65, [&] { split_dataset(data, options); }), "two parts"));
  options.folders.clear();
  options.given = true;  // shares are asked for: the folders' names no longer decide
  options.valid = 0.25;
  CHECK(split_dataset(data, options).train.size() == 3);
}

TEST_CASE("names of image folders that tell no patient are no leak") {
  const TempFolder root;
  for (const char* name : {"train/n01/img_1.png", "valid/n01/img_2.png", "train/n01/n01_7.png", "valid/n01/n01_8.png",
                           "train/n01/0001.png", "valid/n01/0001.png"})
    root.picture(name);
  const Dataset data = open_dataset(options_for(DataFormat::image_folder, root.path()), Task::from_format, 1);
  CHECK(split_dataset(data, {}).warnings.empty());
}
