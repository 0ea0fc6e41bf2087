// Names that sound like parts of a data set, and what is done where pictures, masks or records have them.
#include <map>

#include "dtrain/data/formats/part_folders.hpp"
#include "dtrain/data/order/split.hpp"
#include "support/records.hpp"
#include "unit/data/folder.hpp"
#include "unit/data/proposed.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

using Strings = std::vector<std::string>;
using Kind = SoundingParts::Kind;
using Named = std::vector<std::pair<std::string, std::string>>;

void open_and_split(const DataOptions& options) {
  split_dataset(open_dataset(options, Task::from_format, 1), options.split);
}

Split split_of(const DataOptions& options) {
  return split_dataset(open_dataset(options, Task::from_format, 1), options.split);
}

void pair(const TempFolder& root, const std::string& images, const std::string& masks, int count = 4) {
  for (int i = 0; i < count; ++i)
    for (const std::string& folder : {images, masks}) root.text(folder + "/" + std::to_string(i) + ".png", folder);
}

// Names of which the second is another part than the first.
const std::vector<Strings> kSounding = {{"seg_train", "seg_test"},
                                        {"X_train", "X_test"},
                                        {"my_train", "my_val"},
                                        {"train_images", "val_images"},
                                        {"trainA", "testA"},
                                        {"trn", "tst"},
                                        {"train", "holdout"},
                                        {"TrainSlices", "TestSlices"},
                                        {"tr", "te"},
                                        {"fold1", "fold2"}};

/// Four pictures and a table of them, with its column of labels.
DataOptions table_of(const TempFolder& root, const std::string& table, const std::string& label) {
  for (const char* name : {"1.png", "2.png", "3.png", "4.png"}) root.picture(name);
  root.text("list.csv", table);
  DataOptions options = options_for("csv", root.path());
  options.labels = root / "list.csv";
  options.csv.label = label;
  return options;
}

}  // namespace

TEST_CASE("names side by side that sound like parts are told from names that do not") {
  for (const Strings& names : kSounding) {
    INFO(names[0]);
    CHECK(parts_among(names).all.size() == 2);
  }
  for (const Strings& names : {Strings{"site_1", "site_2"},
                               {"ct2019.a", "ct2020.b"},
                               {"ct2019.val_1", "mr2019.test_1"},
                               {"train_station", "test_tube"},
                               {"trained", "tested"},
                               {"cat", "dog"},
                               {"fold1", "flat"},
                               {"tr", "te", "us"},
                               {"interval", "contest"},
                               {"seg_train"},
                               {"oval", "round"},
                               {}})
    CHECK(parts_among(names).kind == Kind::none);
  CHECK(parts_among({"part1", "part2"}).kind == Kind::pieces);
  CHECK(parts_among({"fold_1", "fold_2"}).kind == Kind::folds);
  CHECK(parts_among({"seg_train", "seg_test", "seg_pred"}).proposal(true) ==
        Named{{"train", "seg_train"}, {"test", "seg_test"}});
  CHECK(parts_among({"a_test", "a_train_val"}).proposal(true) == Named{{"train", "a_train_val"}, {"test", "a_test"}});
  CHECK(parts_among({"fold1", "fold2", "fold3"}).proposal(false) == Named{{"valid", "fold3"}});
  CHECK(split_folders_word({{"train", "my train, 1"}, {"test", "b"}}) ==
        "'data.split.folders={train: \"my train, 1\", test: b}'");
}

TEST_CASE("folders of pictures and masks that sound like parts are refused with a split that works") {
  for (const Strings& names : kSounding)
    for (const bool within : {false, true}) {
      INFO(names[0] << (within ? " within images/" : ""));
      const TempFolder root;
      for (const std::string& name : names)
        within ? pair(root, "images/" + name, "masks/" + name) : pair(root, name + "/images", name + "/masks");
      DataOptions options = options_for("image_mask", root.path());
      const std::string sentence = error_of(65, [&] { open_and_split(options); });
      INFO(sentence);
      CHECK(holds(sentence, names[0] + "/"));
      paste(sentence, options);
      REQUIRE_FALSE(options.split.folders.empty());
      const Split split = split_of(options);
      CHECK(split.train.size() + split.valid.size() + split.test.size() == 8);
      CHECK(split.valid.size() + split.test.size() == 4);
      CHECK(split.warnings.empty());
    }
}

TEST_CASE("parts beside the folders of pictures and masks are not left out in silence") {
  const TempFolder root;
  pair(root, "images", "masks");
  pair(root, "more/images", "more/masks");
  DataOptions options = options_for("image_mask", root.path());
  const Dataset data = open_dataset(options, Task::from_format, 1);
  REQUIRE(data.notes.size() == 1);
  CHECK(holds(data.notes[0], "more/ left out: beside images/"));
  pair(root, "test/images", "test/masks");
  const std::string sentence = error_of(65, [&] { open_and_split(options); });
  CHECK(holds(sentence, "(test/) beside images/"));
  paste(sentence, options);
  CHECK(split_of(options).test.size() == 4);
}

TEST_CASE("folders of parts with masks beside their pictures are read where images is the root itself") {
  for (const Strings& names : {Strings{"train", "val"}, {"seg_train", "seg_val"}}) {
    const TempFolder root;
    for (const std::string& name : names)
      for (const char* picture : {"/1.png", "/1_mask.png", "/2.png", "/2_mask.png"}) root.picture(name + picture);
    DataOptions options = options_for("image_mask", root.path());
    options.image_mask.images = options.image_mask.masks = root.path() + "/";  // as "." is read
    options.image_mask.mask_suffix = "_mask";
    if (names[0] == "seg_train") {
      const std::string sentence = error_of(65, [&] { open_and_split(options); });
      CHECK(holds(sentence, "seg_train/, seg_val/"));
      paste(sentence, options);
    }
    const Split split = split_of(options);
    CHECK(split.train.size() == 2);
    CHECK(split.valid.size() == 2);
    CHECK(split.warnings.empty());
  }
}

TEST_CASE("folders within images/ that sound like parts are dealt out where data.split says so, with a warning") {
  const TempFolder root;
  for (const char* name : {"seg_train", "seg_test"})
    pair(root, std::string("images/") + name, std::string("masks/") + name);
  DataOptions options = options_for("image_mask", root.path());
  options.split.given = true;
  options.split.valid = 0.5;
  const Split split = split_of(options);
  REQUIRE(split.warnings.size() == 1);
  CHECK(holds(split.warnings[0], "images/seg_train/"));
  CHECK(holds(split.warnings[0], "'data.split.folders={train: images/seg_train, test: images/seg_test}'"));
}

TEST_CASE("samples with several pictures each are told from parts by the message alone") {
  const TempFolder root;
  for (const char* name : {"site_1", "site_2"}) pair(root, std::string(name) + "/images", std::string(name) + "/masks");
  DataOptions options = options_for("image_mask", root.path());
  const std::string sentence = error_of(65, [&] { open_and_split(options); });
  CHECK(holds(sentence, "samples of one picture each"));
  paste(sentence, options);
  CHECK(split_of(options).valid.size() == 4);
}

TEST_CASE("pictures of a table in folders that sound like parts, at any depth, are not dealt out in silence") {
  for (const Strings& names : {Strings{"seg_train", "seg_test"}, {"images/train", "images/test"}, {"trn", "tst"}}) {
    const TempFolder root;
    std::string rows = "path,kind\n";
    for (const std::string& name : names)
      for (const char* picture : {"1.png", "2.png"}) {
        root.picture(name + "/" + picture);
        rows += name + "/" + picture + (picture[0] == '1' ? ",a\n" : ",b\n");
      }
    root.text("list.csv", rows);
    DataOptions options = options_for("csv", root.path());
    options.labels = root / "list.csv";
    options.csv.label = "kind";
    const std::string sentence = error_of(65, [&] { open_and_split(options); });
    CHECK(holds(sentence, names[0]));
    paste(sentence, options);
    CHECK(split_of(options).test.size() == 2);
  }
}

TEST_CASE("a column that names parts and is not used is a warning") {
  const TempFolder root;
  DataOptions options =
      table_of(root, "path,kind,set\n1.png,a,train\n2.png,b,Train\n3.png,a,test\n4.png,b,test\n", "kind");
  REQUIRE(split_of(options).warnings.size() == 1);
  CHECK(holds(split_of(options).warnings[0], "the column 'set' names parts"));
  CHECK(holds(split_of(options).warnings[0], "data.csv.split=set"));
  options.csv.split = "set";
  CHECK(split_of(options).test.size() == 2);
  CHECK(split_of(options).warnings.empty());
}

TEST_CASE("classes in the names of part folders have no split to paste, and the message says what to move") {
  const TempFolder root;
  for (const char* name : {"train_cat", "train_dog", "test_cat", "test_dog"})
    root.picture(std::string(name) + "/1.png");
  const std::string sentence = error_of(65, [&] { open_and_split(options_for("image_folder", root.path())); });
  CHECK(holds(sentence, "test_cat/, test_dog/, train_cat/, train_dog/"));
  CHECK(holds(sentence, "as in train/CLASS/ and test/CLASS/"));
}

TEST_CASE("pictures and masks of parts in folders with joined names are told how they should lie") {
  const TempFolder root;
  for (const char* part : {"train", "test"}) pair(root, std::string(part) + "_images", std::string(part) + "_masks");
  DataOptions options = options_for("image_mask", root.path());
  CHECK(holds(error_of(66, [&] { open_and_split(options); }), "as in train/images/, train/masks/, test/images/"));
  options.image_mask.images = "train_images";
  options.image_mask.masks = "train_masks";
  const Split split = split_of(options);
  REQUIRE(split.warnings.size() == 1);
  CHECK(holds(split.warnings[0], "test_images/, test_masks/ left out"));
}

TEST_CASE("a column of folds that is not used, and classes that are measurements, are warnings") {
  const TempFolder root;
  const DataOptions options =
      table_of(root, "path,size,fold\n1.png,0.25,0\n2.png,0.5,0\n3.png,1.75,1\n4.png,2,1\n", "size");
  const Split split = split_of(options);
  REQUIRE(split.warnings.size() == 2);
  CHECK(holds(split.warnings[0], "the column 'fold' is not used"));
  CHECK(holds(split.warnings[1], "the 4 values of column 'size', such as 2, are taken for classes"));
}

TEST_CASE("record files whose names differ in a part are the parts, and nearly such names are refused") {
  const auto record = [](int64_t label) {
    return tfrecord(example({{"image/class/label", int64_feature({label})}, {"image/encoded", bytes_feature({"x"})}}));
  };
  const auto with = [&](const Strings& names, const std::function<void(DataOptions&)>& look) {
    const TempFolder root;
    for (const std::string& name : names) root.text(name, record(0) + record(1));
    DataOptions options = options_for("tfrecord", root.path());
    look(options);
  };
  for (const Strings& names : {Strings{"my_train-000.tfrecord", "my_train-001.tfrecord", "my_test-000.tfrecord"},
                               {"a/seg_train.tfrecord", "a/seg_train2.tfrecord", "b/seg_test.tfrecord"}})
    with(names, [](DataOptions& options) {
      const Split split = split_of(options);
      CHECK(split.train.size() == 4);
      CHECK(split.test.size() == 2);
    });
  for (const Strings& names : {Strings{"trn.tfrecord", "tst.tfrecord"},
                               {"train.tfrecord", "holdout.tfrecord"},
                               {"X_train/a.tfrecord", "X_test/b.tfrecord"},
                               {"fold1.tfrecord", "fold2.tfrecord"}})
    with(names, [&](DataOptions& options) {
      const std::string sentence = error_of(65, [&] { open_and_split(options); });
      INFO(sentence);
      CHECK(holds(sentence, names[0].substr(0, names[0].find('/'))));
      paste(sentence, options);
      const Split split = split_of(options);
      CHECK(split.train.size() == 2);
      CHECK(split.valid.size() + split.test.size() == 2);
    });
  with({"trn-0.tfrecord", "trn-1.tfrecord", "tst-0.tfrecord"}, [](DataOptions& options) {
    CHECK(holds(error_of(65, [&] { open_and_split(options); }), "into a folder of its own"));
  });
  with({"shard-0.tfrecord", "shard-1.tfrecord"},
       [](DataOptions& options) { CHECK(split_of(options).warnings.empty()); });
}

TEST_CASE("folders that data.split.folders leaves out are a warning where they are like parts, else a note") {
  const TempFolder root;
  for (const char* part : {"train", "valid", "seg_pred", "later", "raw"})
    for (const char* name : {"a", "b"})
      root.picture(std::string(part) + (part == std::string("raw") ? "/" : std::string("/") + name + "/") + name +
                   ".png");
  DataOptions options = options_for("image_folder", root.path());
  options.split.folders = {{"train", "train"}, {"valid", "valid"}};
  const Split split = split_of(options);
  REQUIRE(split.warnings.size() == 1);
  CHECK(holds(split.warnings[0], "data.split.folders leaves out later/, seg_pred/ with pictures"));
  const Dataset data = open_dataset(options, Task::from_format, 1);
  REQUIRE(data.notes.size() == 1);
  CHECK(holds(data.notes[0], "raw/ left out"));
  std::filesystem::rename(root / "later", root / "test");
  CHECK(holds(split_of(options).warnings.at(0), "{train: train, valid: valid, test: test}'"));
}

TEST_CASE("pictures all named for parts are a warning where they are dealt out at random") {
  const TempFolder root;
  for (const char* name : {"a", "b"})
    for (const char* part : {"train_1", "train_2", "test_3"}) root.picture(std::string(name) + "/" + part + ".png");
  const DataOptions options = options_for("image_folder", root.path());
  REQUIRE(split_of(options).warnings.size() == 1);
  CHECK(holds(split_of(options).warnings[0], "data.split.files"));
  root.picture("a/other.png");
  CHECK(split_of(options).warnings.empty());
}

TEST_CASE("samples in no list are told with what takes them in, and a missing training list means all the rest") {
  const TempFolder root;
  for (const char* name : {"a/1.png", "a/2.png", "b/3.png", "b/4.png"}) root.picture(name);
  root.text("train.txt", "a/1.png\n");
  root.text("valid.txt", "b/3.png\n");
  DataOptions options = options_for("image_folder", root.path());
  options.split.files = {{"train", root / "train.txt"}, {"valid", root / "valid.txt"}};
  const Split listed = split_of(options);
  REQUIRE(listed.warnings.size() == 1);
  CHECK(holds(listed.warnings[0],
              "2 samples in no part of data.split left out, such as a/2.png: add them to a list, "
              "or take data.split.files.train out"));
  options.split.files.erase("train");
  const Split rest = split_of(options);
  CHECK(rest.warnings.empty());
  CHECK(rest.train.size() == 3);
  CHECK(rest.valid.size() == 1);
}
