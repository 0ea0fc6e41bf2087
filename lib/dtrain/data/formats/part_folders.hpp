#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// "train", "valid" or "test" for what people call these parts of a data set: train, training; valid, val, validation,
/// dev; test, testing; in any case, singular or plural, with "set", "data" or "split" behind it ("Test-Set"). "" for
/// any other name.
std::string part_called(std::string_view name);

/// (part, folder relative to root), train, valid, test; each part once.
using PartFolders = std::vector<std::pair<std::string, std::string>>;

/// The parts of a data set by folder: what data.split.folders names, and unless that names the training folder the
/// folders of root that are called like parts (part_called()), but for those that data.classes names and for parts that
/// have a folder already. `images`: a folder beneath root; where it is there, the folders in that.
///
/// Where folders are the layout (DataFormat::folders) such a folder is never a class. Throws DataError, naming the
/// folders that were seen, for two spellings of one part, for parts beside other folders that hold pictures, for parts
/// without one for training, and of folders that are classes for such as only sound like parts (seg_train, seg_test)
/// and would be classes. Elsewhere parts count where there is one for training and another.
PartFolders part_folders(const DataOptions& options, const std::string& images = "");

/// What samples with such parts are told apart by.
OwnParts told_by_folders(const PartFolders& folders);

/// Of samples without a part: that of the folder they lie in.
void set_parts(const PartFolders& folders, std::vector<Sample>& samples);

}  // namespace dtrain
