#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// What is wrong with a file that a run wrote: the first place, and how many more there are.
struct FileFault {
  std::string file = "";
  std::string sentence = "";  ///< of the first: "runs/a/epochs.csv, line 7: 12 fields where the header has 18"
  int64_t more = 0;           ///< places of that file beside the first

  std::string text() const;  ///< both, as one sentence
};

/// A table of numbers with a header line, as epochs.csv and ranks.csv are: by columns. NaN stands for an empty field.
struct NumberTable {
  std::vector<std::string> columns;
  std::vector<std::vector<double>> values;  ///< of each column, all as long

  size_t rows() const { return values.empty() ? 0 : values.front().size(); }
  /// Null if no such column exists.
  const std::vector<double>* column(const std::string& name) const;
  /// Nothing if it is empty there, or no such column exists. row < rows().
  std::optional<double> at(size_t row, const std::string& column) const;
  /// Adds a column of NaN unless it is there. Its values.
  std::vector<double>& add_column(const std::string& name);
  /// Drops the last row. rows() > 0.
  void pop_row();
};

/// A decimal number that is the whole of `text`, spaces and quotes around it aside; NaN for nothing but these.
/// Nothing for anything else.
std::optional<double> number_or_nan(std::string_view text);

/// The lines of `text` that end; what follows the last line's end is left out, as a job may be writing it. A row with a
/// number of fields that does not fit the header is left out, a field that is no number is empty, and the first of
/// these is returned. Throws DataError for a header that is not one (CsvTable::parse).
std::optional<FileFault> read_numbers(std::string_view text, const std::string& name, NumberTable& table);

}  // namespace dtrain
