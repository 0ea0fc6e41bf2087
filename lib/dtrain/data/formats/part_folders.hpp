#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// "train", "valid" or "test" for what people call these parts of a data set: train, training; valid, val, validation,
/// dev; test, testing; in upper or lower case, singular or plural, also followed by "set", "data" or "split"
/// ("Test-Set"), with digits, brackets and the like anywhere ("train2017", "02_test", "(val)"). "" for any other name.
std::string part_called(std::string_view name);

/// The same of one of its words: "seg_train", "test_list.txt". "" for names without such a word.
std::string part_within(std::string_view name);

/// (part, folder relative to root), train, valid, test; each part once.
using PartFolders = std::vector<std::pair<std::string, std::string>>;

/// The parts of a data set by folder: what data.split.folders names, and unless that names the training folder the
/// folders of root that are named like parts (part_called()), except those that data.classes names and parts that
/// already have a folder. `images`: a folder under root; if it exists, the folders in it are used.
/// If folders are the layout (DataFormat::folders) such a folder is never a class. Throws DataError, naming the
/// folders that were seen, for two spellings of one part, for parts beside other folders that hold pictures, for parts
/// without one for training, and, if folders are classes, for those that only sound like parts (seg_train, seg_test;
/// nothing but trainA, testA; nothing but fold1, fold2) and would become classes. Elsewhere parts are used if there is
/// one for training and another.
PartFolders part_folders(const DataOptions& options, const std::string& images = "");

/// What gave samples with such parts their part.
OwnParts told_by_folders(const PartFolders& folders);

/// Gives samples without a part that of the folder they are in.
void set_parts(const PartFolders& folders, std::vector<Sample>& samples);

}  // namespace dtrain
