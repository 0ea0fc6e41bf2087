#pragma once
// Folder trees that people make, each with what it means.
#include <cctype>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace dtrain::test {

using Strings = std::vector<std::string>;

inline const std::map<std::string, Strings> kWords = {
    {"train",
     {"train", "trains", "training", "train_set", "trainset", "training-data", "training data set", "train2017",
      "01_train", "(training)"}},
    {"valid", {"valid", "val", "vals", "validation", "validations", "dev", "dev set", "val_split", "val2017", "[Val]"}},
    {"test", {"test", "tests", "testing", "test-set", "testdata", "02_test", "test 1"}}};

/// One tree and what it means.
struct Tree {
  Strings pictures;                         // all of them, also those that are not samples
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
      case 13:
        return a_class_called_train();
      case 14:
        return nearly_parts();
      default:
        return equal_insides();
    }
  }
  static constexpr int kKinds = 16;

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
    static const Strings names = {"cat",      "dog",        "Normal",  "train_station", "contest",       "tested ok",
                                  "valley",   "0",          "1",       "device",        "trainer",       "latest",
                                  "val d'or", "no finding", "rest",    "estás",         "intervalidity", "sample",
                                  "trained",  "test_tube",  "validity"};
    std::set<std::string> some;
    while (some.size() < 2 + static_cast<size_t>(below(3)))
      some.insert(names[static_cast<size_t>(below(static_cast<int>(names.size())))]);
    return some;
  }

  // Patients with one or two pictures, in folders of any depth.
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
    for (const char* beside : {"__MACOSX/a", ".thumbnails", "thumbs", "@eaDir/a"})
      if (coin()) tree_.pictures.push_back(std::string(beside) + "/1.png");
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
    static const std::vector<Strings> names = {{"seg_train", "seg_test"},
                                               {"chest xray-Train", "chest xray-TEST"},
                                               {"X_train", "X_test"},
                                               {"my_train", "my_val"},
                                               {"train_images", "test_images"},
                                               {"trainImages", "TestImages"},
                                               {"trainimages", "valimages"},
                                               {"my-training-set", "my_test_data"},
                                               {"trainA", "testA"},
                                               {"trn", "tst"},
                                               {"ttrain", "ttest"},
                                               {"seg_train", "seg_holdout"}};
    const Strings& some = names[static_cast<size_t>(below(static_cast<int>(names.size())))];
    for (const std::string& name : some) fill_part(name, "");
    if (coin()) fill_part("seg_pred", "");
    tree_.fault = some.front() + "/";
    return tree_;
  }

  Tree a_class_called_train() {
    classes_ = {"train", "car", "ship"};
    plain();
    tree_.wanted = {"car", "ship", "train"};
    return tree_;
  }

  Tree nearly_parts() {
    static const std::vector<Strings> names = {{"trainA", "trainB"}, {"tr", "te"},         {"fold1", "fold2", "fold3"},
                                               {"tr", "va", "ts"},   {"FOLD_0", "FOLD_1"}, {"Split 1", "Split 2"}};
    const Strings& some = names[static_cast<size_t>(below(static_cast<int>(names.size())))];
    for (const std::string& name : some) fill_part(name, "");
    tree_.fault = some.front() + "/";
    return tree_;
  }

  Tree equal_insides() {
    const bool parts = coin();
    const Strings outer = !parts   ? Strings{"male", "female"}
                          : coin() ? Strings{"learn", "check"}
                          : coin() ? Strings{"site_1", "site_2"}
                                   : Strings{"ct2019.train.v2", "ct2020.b"};
    const std::string above = parts || coin() ? "" : spelled("train") + "/";
    for (const std::string& name : outer) fill_part(above + name, "");
    tree_.fault = outer.front() + (outer.front() < outer.back() ? ", " : ")");
    return tree_;
  }

  std::mt19937 random_;
  std::set<std::string> classes_;
  Tree tree_;
  int number_ = 1000;
};

}  // namespace dtrain::test
