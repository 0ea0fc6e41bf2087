// Folder trees that people make, with a description of what they mean: dtrain reads them so, or refuses them by name.
#include <map>
#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/part_folders.hpp"
#include "dtrain/data/order/split.hpp"
#include "unit/data/folder.hpp"
#include "unit/data/proposed.hpp"
#include "unit/data/trees.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

std::map<std::string, std::string> parts_dealt(const Dataset& data, const Split& split) {
  std::map<std::string, std::string> dealt;
  for (const auto& [part, samples] : {std::pair<std::string, const std::vector<int64_t>*>{"train", &split.train},
                                      {"valid", &split.valid},
                                      {"test", &split.test}})
    for (const int64_t i : *samples) dealt[data.samples[static_cast<size_t>(i)].path] = part;
  return dealt;
}

void check_trained(const Tree& tree, const DataOptions& options) {
  const Dataset data = open_dataset(options, Task::from_format, 1);
  CHECK(std::set<std::string>(data.classes.begin(), data.classes.end()) == tree.classes);
  const Split split = split_dataset(data, options.split);
  const bool by_folders = data.own_parts.by == OwnParts::By::folders;
  if (by_folders) CHECK(split.warnings.empty());
  const auto dealt = parts_dealt(data, split);
  REQUIRE(dealt.size() == tree.part.size());
  size_t drawn = 0;
  for (const auto& [path, meant] : tree.part) {
    INFO(path);
    REQUIRE(dealt.contains(path));
    const bool shared = tree.deals_valid && (meant == "train" || meant.empty());
    CHECK((shared ? dealt.at(path) != "test" : dealt.at(path) == meant));
    drawn += shared && dealt.at(path) == "valid" ? 1 : 0;
  }
  CHECK((drawn > 0) == tree.deals_valid);
  if (!by_folders || !tree.deals_valid) return;
  std::map<std::string, std::set<std::string>> patients;
  for (const Sample& sample : data.samples) patients[sample.group].insert(dealt.at(sample.path));
  for (const auto& [patient, parts] : patients) CHECK(parts.size() == 1);
}

void check_refused(const Tree& tree, const DataOptions& options) {
  const std::string sentence = error_of(65, [&] {
    const Dataset data = open_dataset(options, Task::from_format, 1);
    split_dataset(data, options.split);
  });
  INFO(sentence);
  CHECK(holds(sentence, *tree.fault));
  DataOptions pasted = options;
  paste(sentence, pasted);
  if (pasted.split.folders.empty()) return;
  const Dataset data = open_dataset(pasted, Task::from_format, 1);
  const Split split = split_dataset(data, pasted.split);
  for (const auto& [part, folder] : pasted.split.folders)
    for (const auto& [path, dealt] : parts_dealt(data, split))
      if (path.starts_with(folder + "/")) CHECK(dealt == part);
}

}  // namespace

TEST_CASE("300 trees of folders are trained as they are meant, or refused by the folder's name", "[long]") {
  Draw draw(17);
  for (int i = 0; i < 300; ++i) {
    const Tree tree = draw.tree(i % Draw::kKinds);
    INFO("tree " << i << ", kind " << i % Draw::kKinds);
    const TempFolder root;
    // Only the names of files matter, not their contents.
    for (const std::string& picture : tree.pictures) root.text(picture, "x");
    for (const std::string& folder : tree.empty) std::filesystem::create_directories(root / folder);
    DataOptions options = options_for("image_folder", root.path());
    options.classes = tree.wanted;
    tree.fault ? check_refused(tree, options) : check_trained(tree, options);
  }
}

TEST_CASE("words for parts, and words that are none") {
  for (const auto& [part, words] : kWords)
    for (const std::string& word : words) CHECK(part_called(word) == part);
  for (const char* none : {"", "trainer", "trained", "train_station", "test_tube", "validity", "2017", "latest", "set",
                           "data", "valley", "devices", "t", "s"})
    CHECK(part_called(none).empty());
}

TEST_CASE(
    "folders nearly named like parts, or equal inside, are classes where data.classes says so or others are beside") {
  const TempFolder root;
  for (const char* name : {"fold1", "fold2"})
    for (const char* inner : {"ill", "well"}) root.text(std::string(name) + "/" + inner + "/1.png", "x");
  DataOptions options = options_for("image_folder", root.path());
  const std::string sentence = error_of(65, [&] { open_dataset(options, Task::from_format, 1); });
  CHECK(holds(sentence, "fold1/, fold2/"));
  CHECK(holds(sentence, "data.split.folders={train: fold1, valid: fold2}"));
  options.classes = {"fold1", "fold2"};
  CHECK(open_dataset(options, Task::from_format, 1).classes == options.classes);
  options.classes = {};
  root.text("unfolded/1.png", "x");
  CHECK(open_dataset(options, Task::from_format, 1).classes == Strings{"fold1", "fold2", "unfolded"});
}

TEST_CASE("folders that systems and viewers make are named and are no classes, unless data.classes takes one") {
  const TempFolder root;
  for (const char* name : {"a/1.png", "b/2.png", "thumbs/1.png", "__MACOSX/a/3.png", ".cache/a/4.png"})
    root.picture(name);
  DataOptions options = options_for("image_folder", root.path());
  const Dataset data = open_dataset(options, Task::from_format, 1);
  CHECK(data.classes == Strings{"a", "b"});
  CHECK(data.samples.size() == 2);
  REQUIRE(data.notes.size() == 1);
  for (const char* left : {"thumbs", "__MACOSX", ".cache"}) CHECK(holds(data.notes[0], left));
  options.classes = {"a", "b", "thumbs"};
  CHECK(open_dataset(options, Task::from_format, 1).classes.size() == 3);
}

TEST_CASE("classes that differ in case or spaces alone are told") {
  const TempFolder root;
  for (const char* name : {"CAT/1.png", "cat/2.png", "dog/3.png"}) root.picture(name);
  const Dataset data = open_dataset(options_for("image_folder", root.path()), Task::from_format, 1);
  CHECK(data.classes.size() == 3);
  REQUIRE(data.notes.size() == 1);
  CHECK(holds(data.notes[0], "'CAT', 'cat'"));
}

TEST_CASE("a split of the configuration outranks folders of parts, and says so with the way back") {
  const TempFolder root;
  for (const char* part : {"Train", "val", "test"})
    for (const char* name : {"a/1.png", "a/2.png", "b/3.png", "b/4.png"}) root.picture(std::string(part) + "/" + name);
  DataOptions options = options_for("image_folder", root.path());
  options.split.given = true;
  options.split.valid = 0.25;
  const Dataset data = open_dataset(options, Task::from_format, 1);
  CHECK(data.classes == Strings{"a", "b"});
  const Split split = split_dataset(data, options.split);
  CHECK(split.test.empty());
  REQUIRE_FALSE(split.warnings.empty());
  CHECK(holds(split.warnings[0], "Train/, val/, test/"));
  CHECK(holds(split.warnings[0], "take data.split out"));
}

TEST_CASE("a share, or a fold, of the training folder validates where folders name training and test alone") {
  const TempFolder root;
  for (const char* part : {"Train", "Test"})
    for (const char* name : {"a", "b"})
      for (int i = 0; i < 20; ++i)
        root.text(std::string(part) + "/" + name + "/" + part + std::to_string(i) + "_1.png", "x");
  DataOptions options = options_for("image_folder", root.path());
  options.split.given = true;
  options.split.stratify = true;
  options.split.valid = 0.25;
  const Dataset data = open_dataset(options, Task::from_format, 1);
  const Split split = split_dataset(data, options.split);
  CHECK(split.test.size() == 40);
  CHECK(split.valid.size() == 10);
  REQUIRE(split.notes.size() == 1);
  CHECK(holds(split.notes[0], "Train/, Test/ name no validation part: data.split.valid 0.25"));
  std::set<int64_t> judged;
  for (options.split.folds = 4, options.split.fold = 1; options.split.fold <= 4; ++options.split.fold) {
    const Split fold = split_dataset(data, options.split);
    CHECK(fold.test == split.test);
    CHECK(fold.valid.size() == 10);
    judged.insert(fold.valid.begin(), fold.valid.end());
  }
  CHECK(judged.size() == 40);
  options.split.folds = 0;
  options.split.test = 0.1;  // wants a test part of its own
  CHECK(holds(split_dataset(data, options.split).warnings[0], "splits all samples again"));
}

TEST_CASE("a named test folder or list goes together with a share of the rest") {
  const TempFolder root;
  for (const char* name : {"a", "b", "official/a", "official/b"})
    for (int i = 0; i < 20; ++i) root.text(std::string(name) + "/x" + std::to_string(i) + ".png", "x");
  DataOptions options = options_for("image_folder", root.path());
  options.split.given = true;
  options.split.valid = 0.5;
  options.split.stratify = true;
  options.split.folders = {{"test", "official"}};
  const Dataset data = open_dataset(options, Task::from_format, 1);
  CHECK(data.classes == Strings{"a", "b"});
  const Split split = split_dataset(data, options.split);
  CHECK(split.test.size() == 40);
  CHECK(split.valid.size() == 20);
  CHECK(split.train.size() == 20);
  for (const int64_t i : split.test) CHECK(data.samples[static_cast<size_t>(i)].path.starts_with("official/"));
}

TEST_CASE("folders of parts within the folders of pictures and masks are parts") {
  const TempFolder root;
  for (const char* part : {"train2017", "Validation"})
    for (const char* name : {"1.png", "2.png"}) {
      root.picture(std::string("images/") + part + "/" + name);
      root.picture(std::string("masks/") + part + "/" + name);
    }
  const DataOptions options = options_for("image_mask", root.path());
  const Dataset data = open_dataset(options, Task::from_format, 1);
  const Split split = split_dataset(data, options.split);
  REQUIRE(data.samples.size() == 4);
  REQUIRE(split.valid.size() == 2);
  CHECK(holds(data.samples[static_cast<size_t>(split.valid[0])].path, "Validation/"));
  root.picture("test/images/3.png");
  CHECK(holds(error_of(65, [&] { open_dataset(options, Task::from_format, 1); }), "test/"));
}

TEST_CASE("a column names the parts; one without validation rows leaves a share of what trains, patients whole") {
  const TempFolder root;
  std::string rows = "path,kind,who,set\n";
  for (int i = 0; i < 40; ++i) {
    const std::string name = "p" + std::to_string(i) + ".png";
    root.picture(name);
    rows += name + (i % 2 == 0 ? ",cat," : ",dog,") + std::to_string(i / 4) + (i < 32 ? ",Training\n" : ",TEST\n");
  }
  root.text("list.csv", rows);
  DataOptions options = options_for("csv", root.path());
  options.labels = root / "list.csv";
  options.csv.label = "kind";
  options.csv.group = "who";
  options.csv.split = "set";
  const Dataset data = open_dataset(options, Task::from_format, 1);
  const Split split = split_dataset(data, options.split);
  CHECK(split.test.size() == 8);
  CHECK(split.valid.size() % 4 == 0);
  CHECK(split.valid.size() >= 4);
  CHECK(split.warnings.empty());
  options.split.given = true;
  options.split.test = 0.1;
  CHECK(holds(error_of(78, [&] { split_dataset(data, options.split); }), "data.split.test has no effect"));
  root.picture("chosen.png");
  root.text("list.csv", rows + "chosen.png,cat,99,valid\n");
  options.split.test = 0;
  const auto split_again = [&] { split_dataset(open_dataset(options, Task::from_format, 1), options.split); };
  CHECK(holds(error_of(78, split_again), "data.split has no effect here"));
  root.text("list.csv", rows + "p0.png,cat,0,maybe\n");
  error_of(65, [&] { open_dataset(options, Task::from_format, 1); });
  root.text("list.csv", "path,kind,who,set\np0.png,cat,0,train\np1.png,dog,1,maybe\n");
  CHECK(holds(error_of(65, [&] { open_dataset(options, Task::from_format, 1); }), "line 3: 'maybe'"));
}

TEST_CASE("pictures of a label file in a training and a test folder keep the test folder apart") {
  const TempFolder root;
  std::string rows = "path,kind\n";
  for (int i = 0; i < 40; ++i) {
    const std::string name = (i < 30 ? "train/p" : "test/p") + std::to_string(i) + ".png";
    root.picture(name);
    rows += name + (i % 2 == 0 ? ",cat\n" : ",dog\n");
  }
  root.text("list.csv", rows);
  DataOptions options = options_for("csv", root.path());
  options.labels = root / "list.csv";
  options.csv.label = "kind";
  const Dataset data = open_dataset(options, Task::from_format, 1);
  const Split split = split_dataset(data, options.split);
  CHECK(split.test.size() == 10);
  CHECK_FALSE(split.valid.empty());
  REQUIRE(split.notes.size() == 1);
}

TEST_CASE("parts under unusual names whose insides are not quite equal are told") {
  const TempFolder root;
  for (const char* path :
       {"public/cat/1.png", "public/cat/2.png", "public/dog/1.png", "private/cat/3.png", "private/x.png"})
    root.picture(path);
  const Dataset data = open_dataset(options_for("image_folder", root.path()), Task::from_format, 1);
  REQUIRE(data.warnings.size() == 1);
  CHECK(holds(data.warnings[0], "private, public of '" + root.path() + "' hold folders of the same names (cat)"));
  CHECK(holds(data.warnings[0], "as in 'data.split.folders={train: public, valid: private}'"));
  root.picture("private/dog/4.png");
  std::filesystem::remove(root / "private/x.png");
  CHECK(holds(error_of(65, [&] { open_dataset(options_for("image_folder", root.path()), Task::from_format, 1); }),
              "have folders in common and no picture of their own (cat, dog)"));
}

TEST_CASE("masks are no class, unless somebody lists them as one") {
  const TempFolder root;
  for (const char* path : {"images/1.png", "images/2.png", "masks/1.png", "masks/2.png"}) root.picture(path);
  DataOptions options = options_for("image_folder", root.path());
  CHECK(holds(error_of(65, [&] { open_dataset(options, Task::from_format, 1); }),
              "holds images/ and masks/ with pictures of the same names, which would be two classes"));
  options.classes = {"images", "masks"};
  CHECK(open_dataset(options, Task::from_format, 1).classes.size() == 2);
}

TEST_CASE("the folder of a run is no data") {
  const TempFolder root;
  for (const char* path : {"a/1.png", "b/1.png"}) root.picture(path);
  root.text("run.json", "{}");
  root.text("config.yaml", "");
  CHECK(holds(error_of(65, [&] { open_dataset(options_for("image_folder", root.path()), Task::from_format, 1); }),
              "is the folder of a run, which dtrain wrote"));
}
