#pragma once
#include <string>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

// What readers of formats whose pictures are files of their own do about data.image.files and data.image.slices.

/// Takes all but the first file of each picture out of `pictures`, names relative to data.root's folder `folder` (""
/// for the root); does nothing without data.image.files. Files with none of the endings are left out, with a warning.
/// Throws DataError that lists the files that pictures lack, or if no file has one of the endings.
void keep_first_files(const DataOptions& options, const std::string& folder, std::vector<std::string>& pictures,
                      Dataset& dataset);

/// For a format with a label file, whose samples are there: each must be named by its first file. Throws DataError for
/// another name and for the files that pictures lack; with data.on_missing skip these pictures are left out.
void require_siblings(const DataOptions& options, Dataset& dataset);

/// Notes for the banner what a picture consists of, if it is several files or pages.
void tell_channels(const DataOptions& options, Dataset& dataset);

/// Whether any sample is a page of a stack.
bool holds_stacks(const Dataset& dataset);

/// Throws ConfigError if data.image.slices wants neighbours and no sample is a page of a stack.
void require_stacks(const DataOptions& options, const Dataset& dataset);

}  // namespace dtrain
