#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "dtrain/base/error.hpp"

namespace dtrain {

// Networks, optimizers and losses are rows: one constant beside the code of each that says all that the rest of the
// program knows about it, and one list of pointers to them. A row has a `name`, as configurations write it, and `keys`,
// those of its group that it reads and others of its kind do not. No other code compares names.

template <class Row>
using RowList = std::vector<const Row*>;

/// The row of that name; throws InternalError if there is none.
template <class Row>
const Row* row_named(const RowList<Row>& rows, const std::string& name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row* row) { return row->name == name; });
  check(found != rows.end(), "there is no row of that name");
  return *found;
}

/// Names of the rows for which `which` holds, in their order.
template <class Row, class Which>
std::vector<std::string> names_where(const RowList<Row>& rows, Which which) {
  std::vector<std::string> names;
  for (const Row* row : rows)
    if (which(*row)) names.push_back(row->name);
  return names;
}

/// Whether this key, without its group, is one of the row's.
template <class Row>
bool reads(const Row& row, const std::string& key) {
  return std::find(row.keys.begin(), row.keys.end(), key) != row.keys.end();
}

/// Names of the rows that read the key.
template <class Row>
std::vector<std::string> readers_of(const RowList<Row>& rows, const std::string& key) {
  return names_where(rows, [&](const Row& row) { return reads(row, key); });
}

}  // namespace dtrain
