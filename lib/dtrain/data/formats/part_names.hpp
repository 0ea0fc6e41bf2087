#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain {

/// "train", "valid" or "test" for what people call these parts of a data set: train, training; valid, val, validation,
/// dev; test, testing; in upper or lower case, singular or plural, also followed by "set", "data" or "split"
/// ("Test-Set"), with digits, brackets and the like anywhere ("train2017", "02_test", "(val)"). "" for any other name.
std::string part_called(std::string_view name);

/// The same of one of its words: "seg_train", "test_list.txt". "" for names without such a word.
std::string part_within(std::string_view name);

/// Names side by side, of folders or record files, that sound like the parts of one data set.
struct SoundingParts {
  enum class Kind {
    none,
    usual,   ///< names that differ in a word of part_called(): seg_train, seg_test; TrainImages, TestImages
    nearly,  ///< in one that hardly means anything else: trn, tst; my_train, my_holdout; nothing but tr, te
    folds,   ///< nothing but fold1, fold2
    pieces,  ///< nothing but part1, part2, as an archive may have been cut, or a set split
  };
  Kind kind = Kind::none;
  std::vector<std::pair<std::string, std::string>> all;  ///< (part, name), in the order given; folds, pieces: part ""

  size_t sets = 1;  ///< of names that differ in the part alone: two of train_cat, test_cat, train_dog, test_dog

  /// Of each part the first name, train, valid, test. Of folds the last one validates; the first trains if `trains`.
  std::vector<std::pair<std::string, std::string>> proposal(bool trains) const;
  std::vector<std::string> names() const;
};

SoundingParts parts_among(const std::vector<std::string>& names);

/// 'data.split.folders={train: a, test: b}', as one word of a command line.
std::string split_folders_word(const std::vector<std::pair<std::string, std::string>>& folders);

}  // namespace dtrain
