#pragma once
#include <string>

#include "dtrain/data/options.hpp"
#include "dtrain/data/store/paths.hpp"

namespace dtrain {

/// The text files of a data set: label tables, split lists, dataset.json, manifests.

/// A file under data.root came with the data, and its links are treated like those of pictures. Throws DataError if
/// links lead from such a `path` out of root, unless data.allow_links. A path outside root was chosen by the user, and
/// its links are followed; a missing one is ignored.
void refuse_link_out(const DataOptions& options, const std::string& path);

}  // namespace dtrain
