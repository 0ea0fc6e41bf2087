#pragma once
#include <string>

#include "dtrain/data/options.hpp"
#include "dtrain/data/store/paths.hpp"

namespace dtrain {

/// The text files of a data set: label tables, split lists, dataset.json, manifests.

/// A file that stands beneath data.root came with the data, and its links count as those of pictures do. Throws
/// DataError where links lead from such a `path` out of root, unless data.allow_links. A path that is not beneath root
/// was chosen by the user, and goes where it goes; one that is not there is nothing to this function.
void refuse_link_out(const DataOptions& options, const std::string& path);

}  // namespace dtrain
