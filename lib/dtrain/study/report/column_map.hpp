#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/study/report/model.hpp"

namespace dtrain {

/// How another tool's tables are read: one CSV file a run, one row an epoch.
struct ColumnMap {
  std::string name = "";                            ///< of the file that it comes from
  std::map<std::string, std::string> columns = {};  ///< their column → ours
  std::string ranks = "";         ///< regular expression for a whole file name; its one group is the number of ranks
  std::string ranks_column = "";  ///< else their column that holds it
  std::string series = "";
  SteadyEpochs steady = {};  ///< those that rates are of, counted from 1
};

/// What a column may be mapped to: a fixed column of epochs.csv, or train_… or valid_… of a metric.
bool is_known_column(const std::string& ours);
/// The fixed ones.
std::vector<std::string> mapped_columns();

/// Why `ranks` is no such expression: one sentence's end; "" if it is one.
std::string why_no_ranks_pattern(const std::string& pattern);

/// Which of the maps a file is for: the one whose `ranks` its name matches, else the only one that has none. Throws
/// UsageError for none, and for several.
const ColumnMap& map_of(const std::vector<ColumnMap>& maps, const std::string& file);

/// A finished run of another tool. Epochs are counted from 1 in the order of the rows; without elapsed_s the time is
/// the sum of the epochs. Throws MissingError for a file or a mapped column that is not there, DataError for a table
/// that is none (CsvTable), a number of ranks that is not one, or that is not the same in all rows. Fields that are no
/// numbers become notes.
ReportedRun read_other_table(const std::string& file, const ColumnMap& map);

}  // namespace dtrain
