#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/data/formats/part_names.hpp"
#include "dtrain/data/options.hpp"
#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// (part, folder relative to root), train, valid, test; each part once.
using PartFolders = std::vector<std::pair<std::string, std::string>>;

/// The parts of a data set by folder: what data.split.folders names, and unless that names the training folder the
/// folders of root that are named like parts (part_called()), except those that data.classes names and parts that
/// already have a folder. `images`: a folder under root; if it exists, the folders in it are used.
/// If folders are the layout (DataFormat::folders) such a folder is never a class. Throws DataError, naming the
/// folders that were seen and a split that would work, for two spellings of one part, for parts beside other folders
/// that hold pictures, for parts without one for training, and for folders that only sound like parts (parts_among())
/// and would become classes or be left out. Elsewhere parts are used if there is one for training and another.
PartFolders part_folders(const DataOptions& options, const std::string& images = "");

/// What gave samples with such parts their part.
OwnParts told_by_folders(const PartFolders& folders);

/// Gives samples without a part that of the folder they are in.
void set_parts(const PartFolders& folders, std::vector<Sample>& samples);

/// For samples without a part in folders, or record files, that sound like parts, at any depth: throws DataError with a
/// split that would work, or if the configuration has a data.split that names none a warning in `dataset`.
void judge_sounding_folders(const DataOptions& options, Dataset& dataset);

/// A warning in `dataset` where every picture is named for a part ("train_001.png", "test_001.png") and none has one.
void tell_sounding_names(const DataOptions& options, Dataset& dataset);

/// What data.split.folders leaves out though it holds pictures: a warning if it sounds like a part or is one by what it
/// holds, else a note; so are folders with pictures beside those of pictures and masks.
void tell_unnamed_folders(const DataOptions& options, Dataset& dataset);

}  // namespace dtrain
