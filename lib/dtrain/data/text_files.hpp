#pragma once
#include <cstdint>
#include <string>

#include "dtrain/data/options.hpp"

namespace dtrain {

/// The text files of a data set: label tables, split lists, dataset.json, manifests.

/// The most that is read of a label table or a split list: some ten million rows.
inline constexpr int64_t kMostTableBytes = int64_t{1} << 30;

/// Where a list of data.split.files lies: beneath root unless it begins with /, ./ or ../.
std::string list_path(const std::string& root, const std::string& file);

/// A file that stands beneath data.root came with the data, and its links count as those of pictures do. Throws
/// DataError where links lead from such a `path` out of root, unless data.allow_links. A path that is not beneath root
/// was chosen by the user, and goes where it goes; one that is not there is nothing to this function.
void refuse_link_out(const DataOptions& options, const std::string& path);

}  // namespace dtrain
