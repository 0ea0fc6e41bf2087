// Folders that people make, from a description of what they mean: it is trained so, or refused by name.
#include <array>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/part_folders.hpp"
#include "dtrain/data/order/split.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

using Strings = std::vector<std::string>;

const std::map<std::string, Strings> kWords = {
    {"train", {"train", "trains", "training", "train_set", "trainset", "training-data", "training data set"}},
    {"valid", {"valid", "val", "vals", "validation", "validations", "dev", "dev set", "val_split"}},
    {"test", {"test", "tests", "testing", "test-set", "testdata"}}};

/// One tree and what it means.
struct Tree {
  Strings pictures;                         // all of them, also those that are no sample
  Strings empty;                            // folders without a picture
  std::map<std::string, std::string> part;  // of a sample → "train", "valid", "test", "" where no part is said
  std::set<std::string> classes;
  Strings wanted;                    // data.classes
  std::optional<std::string> fault;  // what the refusal names
  bool deals_valid = false;          // a share of what trains validates
};

/// Draws trees of every kind in turn.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  Tree tree(int kind) {
    tree_ = {};
    classes_ = some_classes();
    switch (kind) {
      case 0:
        return plain();
      case 1:
        return parts({"train", "valid"}, false);
      case 2:
        return parts({"train", "valid", "test"}, false);
      case 3:
        return parts({"train", "test"}, true);
      case 4:
        return parts({"train"}, true);
      case 5:
        return beside_classes();
      case 6:
        return two_spellings();
      case 7:
        return without_training();
      case 8:
        return within_a_folder();
      case 9:
        return within_classes();
      case 10:
        return an_empty_part();
      case 11:
        return a_part_without_classes();
      case 12:
        return called_alike();
      default:
        return a_class_called_train();
    }
  }
  static constexpr int kKinds = 14;

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  bool coin() { return below(2) == 0; }

  std::string spelled(const std::string& part) {
    const Strings& words = kWords.at(part);
    return cased(words[static_cast<size_t>(below(static_cast<int>(words.size())))]);
  }

  std::string cased(std::string word) {
    const int how = below(3);
    for (size_t i = 0; i < word.size(); ++i)
      if (how == 1 || (how == 2 && i == 0)) word[i] = static_cast<char>(std::toupper(word[i]));
    return word;
  }

  std::set<std::string> some_classes() {
    static const Strings names = {"cat",      "dog",        "Normal", "train_station", "contest",       "tested ok",
                                  "valley",   "0",          "1",      "device",        "trainer",       "latest",
                                  "val d'or", "no finding", "rest",   "estás",         "intervalidity", "sample"};
    std::set<std::string> some;
    while (some.size() < 2 + static_cast<size_t>(below(3)))
      some.insert(names[static_cast<size_t>(below(static_cast<int>(names.size())))]);
    return some;
  }

  // Patients of one or two pictures, in folders of any depth.
  void fill(const std::string& folder, const std::string& part) {
    for (int patient = 0; patient < 12; ++patient)
      for (int view = 0; view < 1 + below(2); ++view) {
        const std::string deep = below(4) == 0 ? "scan/left/" : "";
        const std::string picture =
            folder + "/" + deep + std::to_string(number_ + patient) + "_" + std::to_string(view) + ".png";
        tree_.pictures.push_back(picture);
        tree_.part[picture] = part;
      }
    number_ += 100;
  }

  void fill_part(const std::string& folder, const std::string& part) {
    for (const std::string& name : classes_) fill(folder + "/" + name, part);
  }

  Tree plain() {
    for (const std::string& name : classes_) fill(name, "");
    tree_.classes = classes_;
    tree_.deals_valid = true;
    if (coin()) tree_.pictures.push_back("cover.png");
    return tree_;
  }

  Tree parts(const Strings& all, bool deals) {
    for (const std::string& part : all) fill_part(spelled(part), part);
    tree_.classes = classes_;
    tree_.deals_valid = deals;
    if (coin()) tree_.empty.push_back("notes");
    if (coin()) tree_.empty.push_back(".git");
    return tree_;
  }

  Tree beside_classes() {
    parts({"train", coin() ? "valid" : "test"}, false);
    tree_.pictures.push_back("extra/one.png");
    tree_.fault = "extra/";
    return tree_;
  }

  Tree two_spellings() {
    fill_part(spelled("train"), "train");
    fill_part("val", "valid");
    const std::string other = coin() ? "Validation" : "VAL";
    fill_part(other, "valid");
    if (coin()) fill_part("test", "test");
    tree_.fault = other + "/";
    return tree_;
  }

  Tree without_training() {
    const std::string test = spelled("test");
    fill_part(test, "test");
    if (coin()) fill_part(spelled("valid"), "valid");
    tree_.fault = test + "/";
    return tree_;
  }

  Tree within_a_folder() {
    const std::string train = spelled("train");
    fill_part("chest/" + train, "train");
    fill_part("chest/" + spelled("valid"), "valid");
    tree_.fault = "chest/" + train;
    return tree_;
  }

  Tree within_classes() {
    const std::string test = spelled("test");
    for (const std::string& name : classes_) {
      fill(name + "/" + spelled("train"), "train");
      fill(name + "/" + test, "test");
    }
    tree_.fault = *classes_.begin() + "/" + test;
    return tree_;
  }

  Tree an_empty_part() {
    fill_part(spelled("train"), "train");
    const std::string valid = spelled("valid");
    tree_.empty.push_back(valid);
    tree_.fault = valid;
    return tree_;
  }

  Tree a_part_without_classes() {
    fill_part(spelled("train"), "train");
    const std::string test = spelled("test");
    tree_.pictures.push_back(test + "/1.png");
    tree_.fault = test;
    return tree_;
  }

  Tree called_alike() {
    const std::string prefix = coin() ? "seg_" : "chest xray-";
    fill_part(prefix + cased("train"), "train");
    fill_part(prefix + cased("test"), "test");
    tree_.fault = prefix;
    return tree_;
  }

  Tree a_class_called_train() {
    classes_ = {"train", "car", "ship"};
    plain();
    tree_.wanted = {"car", "ship", "train"};
    return tree_;
  }

  std::mt19937 random_;
  std::set<std::string> classes_;
  Tree tree_;
  int number_ = 1000;
};

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
}

}  // namespace

TEST_CASE("300 trees of folders are trained as they are meant, or refused by the folder's name") {
  Draw draw(17);
  for (int i = 0; i < 300; ++i) {
    const Tree tree = draw.tree(i % Draw::kKinds);
    INFO("tree " << i << ", kind " << i % Draw::kKinds);
    const TempFolder root;
    // Which files there are decides, not what they hold.
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
  for (const char* none :
       {"", "trainer", "train1", "train_station", "latest", "set", "data", "valley", "devices", "t", "s"})
    CHECK(part_called(none).empty());
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
  for (const char* part : {"Training", "Validation"})
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
