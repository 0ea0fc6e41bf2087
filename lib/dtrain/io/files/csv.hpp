#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// A comma-separated file with a header line, RFC 4180 as users' files really are: quoted fields with commas, newlines
/// and doubled quotes; LF, CRLF or CR; a byte-order mark; blank lines skipped; an empty last column tolerated on any
/// line. A quote inside an unquoted field stands for itself. Fields are kept as they are, names of columns are trimmed.
/// Columns are found by name; names after those asked for may repeat (the NIH label file has unquoted commas in two of
/// its header names).
///
/// A row has a field for every column. Columns without a name at the end of the header may be missing from a row, and a
/// row may have more fields than the header as long as those are empty: both come from a trailing comma.
/// Messages name file and line, never the contents: rows may hold patients' data.
class CsvTable {
 public:
  /// Reads the whole file, at most `max_bytes`. Throws MissingError, DataError with file and line: no header, one that
  /// holds semicolons or tabs and no comma, a NUL byte, an unclosed quote or text after a closing one, a row with fewer
  /// fields than the header (as a file that was cut) or with more, more than 10,000 columns, a row over 64 MiB.
  static CsvTable read(const std::string& path, int64_t max_bytes = int64_t{1} << 32);
  /// The same from memory; `name` is the file's name for messages.
  static CsvTable parse(std::string_view text, const std::string& name);

  const std::string& name() const { return name_; }
  const std::vector<std::string>& columns() const { return columns_; }
  int64_t rows() const { return static_cast<int64_t>(lines_.size()); }

  /// First column of that name, if there is one.
  std::optional<int64_t> find_column(const std::string& column) const;
  /// Throws DataError naming the file, the column, the configuration's `key` that names it and the columns there are.
  int64_t column(const std::string& column, const std::string& key = "") const;

  /// Throws InternalError unless 0 <= row < rows() and 0 <= column < columns().size().
  const std::string& at(int64_t row, int64_t column) const;
  /// Line of the file on which the row begins, counted from 1, for messages. 0 <= row < rows().
  int64_t line(int64_t row) const { return lines_[static_cast<size_t>(row)]; }

 private:
  std::string name_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> fields_;
  std::vector<int64_t> lines_;
};

/// `field` as a CSV field: quoted where it holds a comma, a quote or a line break, or a semicolon or tab, which
/// separate columns in spreadsheets of many countries. Spreadsheets run what begins with =, +, -, @, a tab or a
/// carriage return as a formula: such a field, unless it is a number, and one that begins with an apostrophe gets an
/// apostrophe before it. So the true text of any field that begins with an apostrophe is what follows it.
std::string csv_field(const std::string& field);

}  // namespace dtrain
