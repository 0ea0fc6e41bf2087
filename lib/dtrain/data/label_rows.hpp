#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/dataset.hpp"
#include "dtrain/data/scan.hpp"
#include "dtrain/io/csv.hpp"

namespace dtrain {

/// A label file, the pictures beneath root, and which row tells of which picture.
struct LabelFile {
  CsvTable table;
  std::vector<std::string> pictures;  ///< natural order
  std::vector<int64_t> row_of;        ///< of each picture, -1 for none
};

/// Problems of many rows, thrown as one error with its list capped.
struct Problems {
  std::vector<std::string> lines;
  template <typename Thrown>
  void raise(const std::string& sentence) const {
    if (!lines.empty()) throw Thrown(with_list(sentence + ":", lines));
  }
};

/// How the names in a label file become pictures: a value of the index, or as PathIndex::find() says.
using Finder = int64_t (*)(const PathIndex& index, const std::string& name);

int64_t find_base_name(const PathIndex& index, const std::string& name);
/// As the path stands, or a base name.
int64_t find_path(const PathIndex& index, const std::string& name);
/// As the path stands, or without as many leading folders as it takes; never by a base name alone.
int64_t find_beneath_dropped_folders(const PathIndex& index, const std::string& name);

/// The row of the label file at `path` that names, in `column`, each of `pictures`. Rows without a picture, where
/// data.on_missing says skip, are told in the notes of `dataset`, their names kept in its left_out.
///
/// Throws MissingError for a file that is not there, for rows without a picture, or where skipping leaves none or a row
/// names a file that is there but no picture by its name, a stack without its page, or folders parted by \;
/// DataError for paths outside root, base names of several pictures and two rows for one picture; as CsvTable::read().
LabelFile match_rows(const DataOptions& options, const std::string& path, std::vector<std::string> pictures,
                     const std::string& column, Finder find, Dataset& dataset);

}  // namespace dtrain
