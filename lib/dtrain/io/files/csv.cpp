#include "dtrain/io/files/csv.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/memory.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {

namespace {

constexpr size_t kMaxColumns = 10'000;
constexpr size_t kMaxRowBytes = size_t{64} << 20;

/// Splits the text into rows of fields.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& name) : text_(text), name_(name) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  /// The next row that is not blank; false at the end. `line` is where it begins.
  bool next(std::vector<std::string>& fields, int64_t& line) {
    while (at_ < text_.size()) {
      row_line_ = line_;
      row_begin_ = at_;
      read_row(fields);
      if (is_blank(fields)) continue;
      line = row_line_;
      return true;
    }
    return false;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}, line {}: {}", name_, row_line_, what));
  }

 private:
  /// Whether a line holds nothing but spaces. A line with only "" in quotes is not blank: its empty field is intended.
  bool is_blank(const std::vector<std::string>& fields) const {
    return fields.size() == 1 && text_[row_begin_] != '"' && trimmed(fields[0]).empty();
  }

  void read_row(std::vector<std::string>& fields) {
    fields.clear();
    do {
      if (fields.size() == kMaxColumns) fail("more than " + with_commas(kMaxColumns) + " fields; is this a CSV file?");
      fields.emplace_back();
      if (at_ < text_.size() && text_[at_] == '"')
        read_quoted(fields.back());
      else
        read_plain(fields.back());
    } while (take(','));
    take_line_break();
  }

  void read_plain(std::string& field) {
    const size_t end = std::min(text_.find_first_of(std::string_view(",\r\n\0", 4), at_), text_.size());
    if (end < text_.size() && text_[end] == '\0') fail_nul();
    check_length(end);
    field.assign(text_.substr(at_, end - at_));
    at_ = end;
  }

  void read_quoted(std::string& field) {
    take('"');
    while (true) {
      const size_t end = text_.find_first_of(std::string_view("\"\0", 2), at_);
      check_length(std::min(end, text_.size()));
      if (end == std::string_view::npos) fail("a quoted field is never closed; the file may have been cut");
      if (text_[end] == '\0') fail_nul();
      const std::string_view piece = text_.substr(at_, end - at_);
      field += piece;
      line_ += line_breaks(piece);
      at_ = end + 1;
      if (!take('"')) break;
      field += '"';
    }
    if (at_ == text_.size()) return;
    if (text_[at_] == '\0') fail_nul();
    if (text_[at_] != ',' && text_[at_] != '\r' && text_[at_] != '\n')
      fail("text after a closing quote; write a quote inside a quoted field twice");
  }

  /// LF, CRLF and CR each end one line.
  static int64_t line_breaks(std::string_view piece) {
    int64_t breaks = 0;
    for (size_t i = 0; i < piece.size(); ++i)
      breaks += piece[i] == '\n' || (piece[i] == '\r' && (i + 1 == piece.size() || piece[i + 1] != '\n'));
    return breaks;
  }

  bool take(char wanted) {
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void take_line_break() {
    const bool carriage_return = take('\r');
    if (take('\n') || carriage_return) ++line_;
  }

  void check_length(size_t end) const {
    if (end - row_begin_ > kMaxRowBytes)
      fail("a row of more than 64 MiB; is this a CSV file, or is a quote not closed?");
  }

  [[noreturn]] void fail_nul() const { fail("a NUL byte: this is not a text file; save it as CSV in UTF-8"); }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  size_t row_begin_ = 0;
  int64_t line_ = 1;
  int64_t row_line_ = 1;
};

/// Refuses a header whose columns are separated by something else than commas, as spreadsheets do in many countries.
void require_commas(std::string_view text, const std::string& name) {
  const size_t begin = std::min(text.find_first_not_of("\r\n \xEF\xBB\xBF"), text.size());
  const std::string_view header = trimmed(text.substr(begin, text.find_first_of("\r\n", begin) - begin));
  const size_t found = header.find_first_of(";\t");
  if (found != std::string_view::npos && header.find(',') == std::string_view::npos)
    throw DataError(name + " has " + (header[found] == ';' ? "semicolons" : "tabs") +
                    " between its columns instead of commas; save it as CSV with commas");
}

/// Number of fields up to the last column that has a name; every row must have at least these.
size_t named_columns(const std::vector<std::string>& columns) {
  size_t named = columns.size();
  while (named > 0 && columns[named - 1].empty()) --named;
  return named;
}

/// Removes empty fields beyond the header, and adds those of unnamed last columns that the row lacks.
void fit_row(std::vector<std::string>& fields, size_t columns, size_t needed, const CsvReader& reader) {
  const size_t found = fields.size();
  while (fields.size() > columns && fields.back().empty()) fields.pop_back();
  if (fields.size() > columns || found < needed)
    reader.fail(fmt::format(
        "{}, but the header has {}; {}", count_of(static_cast<int64_t>(found), "field"), columns,
        found < needed ? "complete the row (the file may have been cut)" : "a field with a comma needs quotes"));
  fields.resize(columns);
  fields.shrink_to_fit();
}

int64_t bytes_of(const std::vector<std::string>& fields) {
  // NOLINTNEXTLINE(bugprone-sizeof-container): the object itself and what it holds
  size_t bytes = sizeof fields + sizeof(int64_t) + fields.size() * sizeof(std::string);
  for (const std::string& field : fields) bytes += field.size() < 16 ? 0 : field.size() + 17;
  return static_cast<int64_t>(bytes);
}

}  // namespace

CsvTable CsvTable::read(const std::string& path, int64_t max_bytes) { return parse(read_text(path, max_bytes), path); }

CsvTable CsvTable::parse(std::string_view text, const std::string& name) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    throw DataError(name + " is UTF-16 text; save it as CSV in UTF-8");
  if (text.starts_with("\x1F\x8B")) throw DataError(name + " is compressed with gzip; decompress it first");
  require_commas(text, name);
  CsvTable table;
  table.name_ = name;
  CsvReader reader(text, name);
  int64_t line = 0;
  if (!reader.next(table.columns_, line)) throw DataError(name + " is empty; its first line must name the columns");
  for (std::string& column : table.columns_) column = std::string(trimmed(column));
  const size_t needed = named_columns(table.columns_);
  if (needed == 0) reader.fail("no column has a name; the first line must name the columns");
  std::vector<std::string> fields;
  MemoryDraw memory("the table of " + name, "leave out unneeded rows and columns");
  while (reader.next(fields, line)) {
    fit_row(fields, table.columns_.size(), needed, reader);
    memory.take(bytes_of(fields));
    table.fields_.push_back(std::move(fields));
    table.lines_.push_back(line);
  }
  return table;
}

std::optional<int64_t> CsvTable::find_column(const std::string& column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end()) return std::nullopt;
  return found - columns_.begin();
}

int64_t CsvTable::column(const std::string& column, const std::string& key) const {
  if (const auto found = find_column(column)) return *found;
  const std::string near = nearest_word(column, columns_);
  std::vector<std::string> shown(columns_.begin(),
                                 columns_.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(columns_.size(), 30)));
  if (shown.size() < columns_.size()) shown.emplace_back("…");
  throw DataError(name_ + " has no column '" + column + "'" + (key.empty() ? "" : ", which " + key + " names") +
                  (near.empty() ? "" : " (did you mean '" + near + "'?)") + "; its columns are: " + join(shown, ", "));
}

const std::string& CsvTable::at(int64_t row, int64_t column) const {
  if (row < 0 || row >= rows() || column < 0 || column >= static_cast<int64_t>(columns_.size()))
    check(false, "a CSV cell lies inside the table");
  return fields_[static_cast<size_t>(row)][static_cast<size_t>(column)];
}

// "-0.5" is a number to a spreadsheet too.
static bool is_number(const std::string& field) {
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return error == std::errc() && end == field.data() + field.size();
}

// For texts that a spreadsheet would take for a formula, and for those that begin with an apostrophe already, so that
// removing one gives back every text.
static bool needs_apostrophe(const std::string& field) {
  constexpr std::string_view kBegins = "=+-@\t\r\n'";
  constexpr std::string_view kWide[] = {"＝", "＋", "－", "＠"};  // some spreadsheets treat them like the narrow ones
  const auto begins = [&](std::string_view wide) { return field.starts_with(wide); };
  return !field.empty() && !is_number(field) &&
         (kBegins.find(field[0]) != std::string_view::npos || std::any_of(std::begin(kWide), std::end(kWide), begins));
}

std::string csv_field(const std::string& field) {
  const bool apostrophe = needs_apostrophe(field);
  if (!apostrophe && field.find_first_of(",;\t\"\r\n") == std::string::npos) return field;
  std::string out = apostrophe ? "\"'" : "\"";
  for (char letter : field) {
    if (letter == '"') out += '"';
    out += letter;
  }
  return out + "\"";
}

}  // namespace dtrain
