#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/scan.hpp"
#include "dtrain/data/store/dataset.hpp"
#include "dtrain/io/files/csv.hpp"

namespace dtrain {

/// A label file, the pictures under root, and which row belongs to which picture.
struct LabelFile {
  CsvTable table;
  std::vector<std::string> pictures;  ///< natural order
  std::vector<int64_t> row_of;        ///< of each picture, -1 for none
};

/// The format whose label files have these columns (DataFormat::table_columns); null for all other tables.
const DataFormat* format_of_columns(const CsvTable& table);

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
/// The path as written, or a base name.
int64_t find_path(const PathIndex& index, const std::string& name);
/// The path as written, or without as many leading folders as necessary; never a base name alone.
int64_t find_beneath_dropped_folders(const PathIndex& index, const std::string& name);

/// The row of the label file at `path` that names, in `column`, each of `pictures`; `key`: the configuration key that
/// gives the column's name, else "". With data.on_missing skip, rows without a picture are reported in the notes of
/// `dataset` and their names kept in its left_out.
/// Throws MissingError for a missing file, for rows without a picture, or if skipping leaves none or a row names a file
/// that exists but is not named like a picture, a stack without a page, or folders separated by \; DataError for paths
/// outside root, base names of several pictures and two rows for one picture; like CsvTable::read().
LabelFile match_rows(const DataOptions& options, const std::string& path, std::vector<std::string> pictures,
                     const std::string& column, const std::string& key, Finder find, Dataset& dataset);

/// All pictures under options.root, natural order.
std::vector<std::string> pictures_beneath(const DataOptions& options);

/// A field without the spaces around it.
std::string text_at(const CsvTable& table, int64_t row, int64_t column);

/// One sample for each picture that has a row; `fill` adds its labels.
void add_pictures_with_rows(const LabelFile& file, Dataset& dataset,
                            const std::function<void(int64_t row, Sample&)>& fill);

/// A note if some of this many `pictures` under root are not samples because `tables` do not name them.
void note_unnamed(size_t pictures, const std::string& tables, Dataset& dataset);

/// A note on labels that are unknown, for the reason `why`.
void note_unknown(const std::string& why, Dataset& dataset);

/// 0 or 1; NaN for an empty text, and for any other, which is not `good`.
float known_or_nan(const std::string& text, bool& good);

/// Names to places, for labels joined in one field.
class JoinedLabels {
 public:
  JoinedLabels(const std::vector<std::string>& classes, char separator);
  /// 1 for each name in `field`, otherwise 0; names that are not classes go to `unknown`.
  std::vector<float> read(const std::string& field, std::vector<std::string>& unknown) const;

 private:
  char separator_;
  size_t count_;
  std::unordered_map<std::string, size_t> places_;
};

}  // namespace dtrain
