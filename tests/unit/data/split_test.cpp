#include "dtrain/data/order/split.hpp"

#include <array>
#include <cmath>
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
  data.format = format_named("nih_cxr14");
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

TEST_CASE("a stratified split by sample hits its counts and depends on the seed alone") {
  const Dataset data = patients(100, 1);
  SplitOptions options;
  options.stratify = true;
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

TEST_CASE("a stratified split by patient never parts a patient, and hits its counts to half a patient") {
  SplitOptions options;
  options.stratify = true;
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
  CHECK(holds(split.warnings[0], "data.split.by=patient keeps each in one part"));
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

TEST_CASE("a patient too large for a stratified part is passed over for others") {
  Dataset data = patients(1, 80);
  for (const Sample& small : patients(20, 1).samples) {
    data.samples.push_back(small);
    data.samples.back().path = "small_" + small.path;
    data.samples.back().group = "small_" + small.group;
  }
  SplitOptions options;
  options.by = SplitOptions::By::patient;
  options.stratify = true;
  options.valid = options.test = 0.1;
  for (options.seed = 1; options.seed <= 50; ++options.seed) {  // wherever the large one is in the order
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
  const Dataset data = open_dataset(options_for("image_folder", root.path()), Task::from_format, 1);
  SplitOptions options;
  options.by = SplitOptions::By::patient;
  CHECK(holds(error_of(78, [&] { split_dataset(data, options); }), "the file names contain no patients"));
  root.picture("b/0003_1.png");
  root.picture("b/0003_2.png");
  const Dataset told = open_dataset(options_for("image_folder", root.path()), Task::from_format, 1);
  CHECK_FALSE(split_dataset(told, options).train.empty());
}

TEST_CASE("a byte-order mark before a list file is not a part of the first name") {
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

  root.text("lists/train.txt", "");
  CHECK(holds(error_of(78, [&] { split_dataset(data, options); }),
              "data.split leaves no sample for training; its list of the training part, lists/train.txt, names none"));
  root.text("lists/train.txt", "deep/p0_0.png\np0_1.png\np1_0.png\n");
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
  const Dataset data = open_dataset(options_for("image_folder", root.path()), Task::from_format, 1);
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
  options.stratify = true;
  CHECK(split_dataset(data, options).train.size() == 3);
}

TEST_CASE("names of image folders that tell no patient are no leak") {
  const TempFolder root;
  for (const char* name : {"train/n01/img_1.png", "valid/n01/img_2.png", "train/n01/n01_7.png", "valid/n01/n01_8.png",
                           "train/n01/0001.png", "valid/n01/0001.png"})
    root.picture(name);
  const Dataset data = open_dataset(options_for("image_folder", root.path()), Task::from_format, 1);
  CHECK(split_dataset(data, {}).warnings.empty());
}

TEST_CASE("the name of a stack tells a patient on its first page as on every other") {
  Dataset data;
  data.format = format_named("image_folder");
  data.classes = {"n01"};
  const auto tells = [&](const std::string& path, const std::string& group) {
    Sample sample;
    sample.path = path;
    sample.group = group;
    sample.class_index = 0;
    return tells_patient(data, sample);
  };
  CHECK(tells("n01/0007.tif#1", "0007"));
  CHECK(tells("n01/0007.tif#2", "0007"));
  CHECK_FALSE(tells("n01/0007.tif", "0007"));  // only the picture's own number
  CHECK(tells("n01/0007_2.tif", "0007"));
  CHECK_FALSE(tells("n01/scan.tif#1", "scan"));
  CHECK_FALSE(tells("n01/n01.tif#1", "n01"));
}

// The part of each sample by its path, so that data sets of different sizes can be compared.
static std::map<std::string, int> parts_by_path(const Dataset& data, const Split& split) {
  std::map<std::string, int> parts;
  int number = 0;
  for (const auto* part : {&split.train, &split.valid, &split.test}) {
    for (int64_t i : *part) parts[data.samples[static_cast<size_t>(i)].path] = number;
    ++number;
  }
  return parts;
}

static int64_t count_moved(const std::map<std::string, int>& before, const std::map<std::string, int>& after) {
  int64_t count = 0;
  for (const auto& [path, part] : before) count += after.at(path) == part ? 0 : 1;
  return count;
}

// `known` patients of a larger data set: of each its first `pictures`.
static Dataset some_of(const Dataset& data, int64_t known, int64_t pictures) {
  Dataset some = data;
  std::map<std::string, int64_t> seen;
  std::erase_if(some.samples, [&](const Sample& sample) {
    const bool patient = seen.contains(sample.group) || static_cast<int64_t>(seen.size()) < known;
    return !patient || ++seen[sample.group] > pictures;
  });
  return some;
}

TEST_CASE("adding patients and pictures moves nobody, whatever the shares, folds and seed") {
  Dataset large = patients(900, 3);
  for (Sample& sample : large.samples)  // so that new ones are between old ones
    sample.path = std::to_string(KeyedRandom(5, Purpose::split, sample.path.size(), sample.path.back()).next32() % 10) +
                  "/" + sample.path;
  const Dataset small = some_of(large, 300, 2);
  REQUIRE(small.samples.size() == 600);
  KeyedRandom random(20, Purpose::split);
  for (int round = 0; round < 60; ++round) {
    SplitOptions options;
    options.by = round % 2 == 0 ? SplitOptions::By::patient : SplitOptions::By::sample;
    options.valid = random.uniform(0.05, 0.4);
    options.test = round % 3 == 0 ? 0 : random.uniform(0.05, 0.4);
    options.seed = random.next64();
    if (round % 4 == 3) {
      options.folds = 2 + static_cast<int64_t>(random.below(9));
      options.fold = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(options.folds)));
    }
    CAPTURE(round, options.seed, options.valid, options.test, options.fold, options.folds);
    const Split after = split_dataset(large, options);
    CHECK(count_moved(parts_by_path(small, split_dataset(small, options)), parts_by_path(large, after)) == 0);
    const auto wanted = (options.folds > 0 ? (1 - options.test) / static_cast<double>(options.folds) : options.valid) *
                        static_cast<double>(large.samples.size());
    CHECK(std::abs(static_cast<double>(after.valid.size()) - wanted) < 5 * std::sqrt(3 * wanted) + 1);
  }
}

TEST_CASE("a stratified split moves few when data are added") {
  Dataset large = patients(330, 3);
  KeyedRandom random(21, Purpose::split);
  for (Sample& sample : large.samples)
    for (const double share : {0.5, 0.2, 0.02}) sample.labels.push_back(random.chance(share) ? 1.0F : 0.0F);
  const Dataset small = some_of(large, 300, 3);
  SplitOptions options;
  options.stratify = true;
  options.by = SplitOptions::By::patient;
  options.valid = options.test = 0.15;
  const Split before = split_dataset(small, options);
  CHECK(count_moved(parts_by_path(small, before), parts_by_path(large, split_dataset(large, options))) < 900 / 10);
}

TEST_CASE("parts are disjoint and complete and groups whole, for any samples, groups, shares, folds and seed") {
  KeyedRandom random(22, Purpose::split);
  int64_t split_up = 0;
  for (int round = 0; round < 400; ++round) {
    Dataset data = patients(1 + static_cast<int64_t>(random.below(40)), 4);
    std::erase_if(data.samples, [&](const Sample&) { return random.chance(0.5); });
    if (data.samples.empty()) continue;
    std::set<std::string> names;
    for (Sample& sample : data.samples) {
      if (random.chance(0.1)) sample.group.clear();
      for (int label = 0; label < 4; ++label)
        sample.labels.push_back(random.chance(0.1) ? std::nanf("") : random.chance(0.3) ? 1.0F : 0.0F);
    }
    SplitOptions options;
    options.by = static_cast<SplitOptions::By>(random.below(3));
    options.stratify = options.by != SplitOptions::By::order && random.chance(0.5);
    options.valid = random.chance(0.2) ? 0 : random.uniform(0, 0.5);
    options.test = random.chance(0.4) ? 0 : random.uniform(0, 0.5);
    options.seed = random.next64();
    options.folds = random.chance(0.5) ? 2 + static_cast<int64_t>(random.below(6)) : 0;
    CAPTURE(round, options.seed, options.valid, options.test, options.folds, data.samples.size());
    for (const Sample& sample : data.samples)
      names.insert(options.by == SplitOptions::By::patient && !sample.group.empty() ? sample.group : sample.path);
    std::vector<int> judged(data.samples.size(), 0);
    std::vector<int64_t> test;
    try {
      for (options.fold = std::min<int64_t>(options.folds, 1); options.fold <= options.folds; ++options.fold) {
        const Split split = split_dataset(data, options);
        check_partition(split, data.samples.size());
        CHECK_FALSE(split.train.empty());
        CHECK((options.test > 0) == !split.test.empty());
        CHECK((options.folds > 0 || options.valid > 0) == !split.valid.empty());
        if (options.fold > 1) CHECK(split.test == test);
        test = split.test;
        for (int64_t i : split.valid) ++judged[static_cast<size_t>(i)];
        if (options.by != SplitOptions::By::patient) continue;
        std::map<std::string, std::set<int>> parts;
        for (const auto& [path, part] : parts_by_path(data, split))
          for (const Sample& sample : data.samples)
            if (sample.path == path && !sample.group.empty()) parts[sample.group].insert(part);
        for (const auto& [group, in] : parts) CHECK(in.size() == 1);
      }
    } catch (const ConfigError& error) {  // too few to fill every part, or no patient at all
      const bool nobody = std::all_of(data.samples.begin(), data.samples.end(),
                                      [](const Sample& sample) { return sample.group.empty(); });
      const auto parts = static_cast<size_t>(std::max<int64_t>(options.folds, 1 + (options.valid > 0 ? 1 : 0)) +
                                             (options.test > 0 ? 1 : 0));
      INFO(error.what());
      CHECK((names.size() < parts || (nobody && options.by == SplitOptions::By::patient)));
      continue;
    }
    ++split_up;
    if (options.folds == 0) continue;
    for (int64_t i : test) ++judged[static_cast<size_t>(i)];
    CHECK(std::count(judged.begin(), judged.end(), 1) == static_cast<int64_t>(judged.size()));
  }
  CHECK(split_up > 250);
}

TEST_CASE("a stratified split gives every class its share, and the whole its size") {
  Dataset data = patients(1000, 1);
  data.task = Task::multiclass;
  for (size_t i = 0; i < data.samples.size(); ++i)  // classes of 1, 3, 6, 10 … samples
    data.samples[i].class_index = static_cast<int64_t>(std::sqrt(2.0 * static_cast<double>(i)));
  SplitOptions options;
  options.stratify = true;
  options.valid = 0.1;
  options.test = 0.2;
  const Split split = split_dataset(data, options);
  CHECK(split.valid.size() == 100);
  CHECK(split.test.size() == 200);
  std::map<int64_t, std::array<double, 4>> counts;
  for (const auto& [path, part] : parts_by_path(data, split)) {
    const size_t number = std::stoul(path.substr(1));
    ++counts[data.samples[number].class_index][static_cast<size_t>(part)];
    ++counts[data.samples[number].class_index][3];
  }
  for (const auto& [number, count] : counts) {
    CAPTURE(number, count[3]);
    CHECK(std::abs(count[1] - 0.1 * count[3]) < 1.5);
    CHECK(std::abs(count[2] - 0.2 * count[3]) < 1.5);
  }
}

TEST_CASE("a stratified split spreads several labels over folds of patients, rare ones too") {
  Dataset data = patients(800, 4);
  KeyedRandom random(23, Purpose::split);
  const std::vector<double> shares = {0.18, 0.1, 0.05, 0.012, 0.002};
  for (Sample& sample : data.samples)
    for (const double share : shares) sample.labels.push_back(random.chance(share) ? 1.0F : 0.0F);
  SplitOptions options;
  options.stratify = true;
  options.by = SplitOptions::By::patient;
  options.test = 0.2;
  options.folds = 5;
  std::vector<double> whole(shares.size(), 0);
  for (const Sample& sample : data.samples)
    for (size_t k = 0; k < shares.size(); ++k) whole[k] += sample.labels[k];
  for (options.fold = 1; options.fold <= 5; ++options.fold) {
    const Split split = split_dataset(data, options);
    CHECK(std::abs(static_cast<double>(split.test.size()) - 640) <= 4);
    CHECK(std::abs(static_cast<double>(split.valid.size()) - 512) <= 8);
    for (size_t k = 0; k < shares.size(); ++k) {
      double count = 0;
      for (int64_t i : split.valid) count += data.samples[static_cast<size_t>(i)].labels[k];
      CAPTURE(options.fold, k, whole[k], count);
      CHECK(std::abs(count - 0.16 * whole[k]) <= 3);
    }
  }
}

TEST_CASE("folds by order are stretches of what stands before the test part") {
  SplitOptions options;
  options.by = SplitOptions::By::order;
  options.test = 0.2;
  options.folds = 3;
  options.fold = 2;
  const Split split = split_dataset(patients(10, 1), options);
  CHECK(split.valid == std::vector<int64_t>{2, 3, 4});
  CHECK(split.train == std::vector<int64_t>{0, 1, 5, 6, 7});
  CHECK(split.test == std::vector<int64_t>{8, 9});
}

TEST_CASE("more folds than patients are an error that names the fold") {
  SplitOptions options;
  options.by = SplitOptions::By::patient;
  options.folds = 5;
  options.fold = 5;
  CHECK(split_dataset(patients(5, 3), options).valid.size() == 3);
  CHECK(holds(error_of(78, [&] { split_dataset(patients(4, 3), options); }),
              "data.split.fold 5 of 5 gets no sample: 4 patients cannot fill every fold"));
}

TEST_CASE("what was trained on is known by its patient, or by its path where none is told") {
  const Dataset data = patients(50, 3);
  SplitOptions options;
  options.by = SplitOptions::By::patient;
  options.valid = 0.3;
  const Split split = split_dataset(data, options);
  const std::string digits = training_digits(data, split);
  CHECK(digits.find("patient") == std::string::npos);
  CHECK(samples_among(digits, data, split.train) == split.train);
  CHECK(samples_among(digits, data, split.valid).empty());
  Dataset other = patients(50, 5);  // new pictures of the same people
  Split all;
  for (int64_t i = 0; i < 250; ++i) all.valid.push_back(i);
  CHECK(samples_among(digits, other, all.valid).size() == split.train.size() / 3 * 5);
  for (Sample& sample : other.samples) sample.group.clear();
  CHECK(samples_among(digits, other, all.valid).empty());
  CHECK(samples_among("", data, split.train).empty());
  CHECK(samples_among(training_digits(other, all), other, {}).empty());
  all.train = {3, 4};
  CHECK(samples_among(training_digits(other, all), other, all.valid) == all.train);
}
