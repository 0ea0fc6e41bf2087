#pragma once
#include <string>

#include "dtrain/study/report/column_map.hpp"

namespace dtrain {

/// Reads a column map: YAML with the keys columns, ranks or ranks_column, series and epochs. Throws MissingError for a
/// file that is not there; ConfigError with file, line and column for all that is wrong in it.
ColumnMap read_column_map(const std::string& file);

}  // namespace dtrain
