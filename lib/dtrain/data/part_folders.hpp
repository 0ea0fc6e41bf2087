#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/data/dataset.hpp"
#include "dtrain/data/options.hpp"

namespace dtrain {

/// "train", "valid" or "test" for what people call these parts of a data set: train, training; valid, val, validation,
/// dev; test, testing; in any case, singular or plural, with "set", "data" or "split" behind it ("Test-Set"). "" for
/// any other name.
std::string part_called(std::string_view name);

/// (part, folder relative to root), train, valid, test; each part once.
using PartFolders = std::vector<std::pair<std::string, std::string>>;

/// The parts of a data set by folder: what data.split.folders names, and unless that names the training folder the
/// folders of root that are called like parts (part_called()), but for those that data.classes names and for parts that
/// have a folder already. Of image_mask, where root holds IMAGES/, the folders in that.
///
/// Where folders are the layout (image_folder, image_mask) such a folder is never a class. Throws DataError, naming the
/// folders that were seen, for two spellings of one part, for parts beside other folders that hold pictures, for parts
/// without one for training, and of image_folder for folders that only sound like parts (seg_train, seg_test) and would
/// be classes. Elsewhere parts count where there is one for training and another.
PartFolders part_folders(const DataOptions& options);

/// Of samples without a part: that of the folder they lie in.
void set_parts(const PartFolders& folders, std::vector<Sample>& samples);

}  // namespace dtrain
