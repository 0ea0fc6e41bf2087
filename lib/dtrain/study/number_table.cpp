#include "dtrain/study/number_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "dtrain/base/text.hpp"
#include "dtrain/io/files/csv.hpp"

namespace dtrain {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Where the header ends: a class may have a line break in its name.
size_t end_of_header(std::string_view text) {
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (text[i] == '\n' && !quoted) return i;
  }
  return text.size();
}

std::string_view bare(std::string_view field) {
  field = trimmed(field);
  if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
  return trimmed(field);
}

class Reader {
 public:
  Reader(const std::string& name, NumberTable& table) : name_(name), table_(table), row_(table.columns.size()) {}

  void read(std::string_view line, int64_t number) {
    if (trimmed(line).empty()) return;
    size_t fields = 0;
    size_t unread = row_.size();  // the first column whose field is no number
    for (size_t begin = 0; begin <= line.size(); ++fields) {
      const size_t end = std::min(line.find(',', begin), line.size());
      const std::string_view field = line.substr(begin, end - begin);
      begin = end + 1;
      if (fields >= row_.size()) {
        if (trimmed(field).empty()) continue;  // a comma at the end
        return fault(number, "more fields than the header's " + std::to_string(row_.size()));
      }
      const std::optional<double> value = number_or_nan(field);
      if (!value && unread == row_.size()) unread = fields;
      row_[fields] = value.value_or(kNone);
    }
    if (fields < row_.size())
      return fault(number, count_of(static_cast<int64_t>(fields), "field") + " where the header has " +
                               std::to_string(row_.size()));
    if (unread < row_.size()) fault(number, "'" + table_.columns[unread] + "' is not a number");
    for (size_t i = 0; i < row_.size(); ++i) table_.values[i].push_back(row_[i]);
  }

  std::optional<FileFault> first() const { return first_; }

 private:
  void fault(int64_t line, const std::string& what) {
    if (first_) ++first_->more;
    if (!first_) first_ = FileFault{name_, name_ + ", line " + std::to_string(line) + ": " + what};
  }

  const std::string& name_;
  NumberTable& table_;
  std::vector<double> row_;
  std::optional<FileFault> first_;
};

}  // namespace

std::string FileFault::text() const {
  return sentence + (more == 0 ? "" : " (and " + count_of(more, "more place") + ")");
}

const std::vector<double>* NumberTable::column(const std::string& name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  return found == columns.end() ? nullptr : &values[static_cast<size_t>(found - columns.begin())];
}

std::optional<double> NumberTable::at(size_t row, const std::string& name) const {
  const std::vector<double>* found = column(name);
  return found == nullptr || std::isnan((*found)[row]) ? std::nullopt : std::optional((*found)[row]);
}

std::vector<double>& NumberTable::add_column(const std::string& name) {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found != columns.end()) return values[static_cast<size_t>(found - columns.begin())];
  const size_t length = rows();
  columns.push_back(name);
  return values.emplace_back(length, kNone);
}

void NumberTable::pop_row() {
  for (std::vector<double>& column : values) column.pop_back();
}

std::optional<double> number_or_nan(std::string_view text) {
  text = bare(text);
  if (text.empty()) return kNone;
  if (text.front() == '+') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc() || end != text.data() + text.size() ? std::nullopt : std::optional(value);
}

std::optional<FileFault> read_numbers(std::string_view text, const std::string& name, NumberTable& table) {
  table = {};
  text = text.substr(0, text.rfind('\n') + 1);  // npos + 1 is 0
  if (text.empty()) return std::nullopt;
  const size_t header = end_of_header(text);
  table.columns = CsvTable::parse(text.substr(0, header), name).columns();
  table.values.resize(table.columns.size());
  Reader reader(name, table);
  int64_t number = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(header), '\n');
  for (size_t begin = header + 1; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    reader.read(text.substr(begin, end - begin), ++number);
    begin = end + 1;
  }
  return reader.first();
}

}  // namespace dtrain
