// Which columns of a table may name pictures, labels, patients and parts.
#include <algorithm>
#include <map>
#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/label_rows.hpp"
#include "dtrain/data/formats/part_folders.hpp"
#include "dtrain/data/reading.hpp"
#include "dtrain/data/store/paths.hpp"

namespace dtrain {

namespace {

constexpr size_t kMostClasses = 60;     // more values are names, dates or free text
constexpr size_t kMostDistinct = 2000;  // counted
constexpr size_t kLongestClass = 60;    // bytes

bool is_one_of(const std::string& column, const std::set<std::string>& words) {
  std::string letters = lower_case(column);
  std::erase_if(letters, [](char c) { return std::string_view(" _-.").find(c) != std::string_view::npos; });
  return words.contains(letters);
}

bool sounds_like_labels(const std::string& column) {
  return is_one_of(column, {"label", "labels", "class", "classes", "classname", "category", "categories", "finding",
                            "findings", "findinglabel", "findinglabels", "diagnosis", "target", "disease", "dx", "y"});
}

bool sounds_like_a_trait(const std::string& column) {
  return is_one_of(column, {"sex", "gender", "age", "male", "female", "view", "viewposition", "position", "modality",
                            "istrain", "isvalid", "istest", "fold"});
}

/// One column, as the rows with pictures fill it.
struct TableColumn {
  std::string name;
  std::map<std::string, int64_t> counts;  // value → rows; at most kMostDistinct values
  int64_t empty = 0;
  bool flags = true;  // nothing but 0, 1 and empty, and both
  bool parts = true;  // names of parts, the training part among them
};

/// A table, and which of its rows name a picture.
class TableLook {
 public:
  TableLook(const CsvTable& table, const FolderLook& look) : table_(table) {
    PathIndex index;
    for (size_t i = 0; i < look.pictures.size(); ++i) index.add(look.pictures[i], static_cast<int64_t>(i));
    for (size_t column = 0; column < table.columns().size(); ++column) try_paths(static_cast<int64_t>(column), index);
    if (rows_.empty()) return;
    for (size_t column = 0; column < table.columns().size(); ++column)
      if (static_cast<int64_t>(column) != path_ && !table.columns()[column].empty())
        columns_.push_back(count(static_cast<int64_t>(column)));
  }

  const CsvTable& table() const { return table_; }
  const std::vector<TableColumn>& columns() const { return columns_; }
  const std::string& path_column() const { return table_.columns()[static_cast<size_t>(path_)]; }
  int64_t pictures() const { return static_cast<int64_t>(rows_.size()); }

 private:
  void try_paths(int64_t column, const PathIndex& index) {
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < table_.rows(); ++row) {
      const std::string name = text_at(table_, row, column);
      if (!name.empty() && find_path(index, name) >= 0) rows.push_back(row);
    }
    if (rows.size() <= rows_.size()) return;
    rows_ = std::move(rows);
    path_ = column;
  }

  TableColumn count(int64_t number) const {
    TableColumn column;
    column.name = table_.columns()[static_cast<size_t>(number)];
    for (const int64_t row : rows_) {
      const std::string text = text_at(table_, row, number);
      bool flag = true;
      known_or_nan(text, flag);
      column.flags = column.flags && flag;
      column.parts = column.parts && !part_called(text).empty();
      if (text.empty())
        ++column.empty;
      else if (column.counts.size() < kMostDistinct || column.counts.contains(text))
        ++column.counts[text];
    }
    column.flags = column.flags && column.counts.size() >= 2;
    column.parts = column.parts && column.counts.size() >= 2;
    return column;
  }

  const CsvTable& table_;
  std::vector<int64_t> rows_;
  int64_t path_ = -1;
  std::vector<TableColumn> columns_;
};

std::string counted(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [value, rows] : counts) sorted.emplace_back(-rows, value);
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> words;
  for (size_t i = 0; i < std::min<size_t>(sorted.size(), 6); ++i)
    words.push_back(sorted[i].second + " " + with_commas(-sorted[i].first));
  return join(words, ", ") + (sorted.size() > 6 ? " …" : "");
}

/// Labels in one field, several where `separator` joins them.
struct Joined {
  char separator = 0;                     // 0: one label each
  bool sure = false;                      // nothing but labels is joined so
  std::map<std::string, int64_t> counts;  // of single labels
  int64_t several = 0;                    // rows with more than one
};

Joined joined_labels(const TableColumn& column) {
  for (const char separator : {'|', ';', ','}) {
    Joined joined{separator, true, {}, 0};
    int64_t alone = 0;
    std::set<std::string> parts;
    for (const auto& [value, rows] : column.counts) {
      const std::vector<std::string> names = split_text(value, separator);
      joined.several += names.size() > 1 ? rows : 0;
      for (const std::string& name : names) {
        joined.counts[std::string(trimmed(name))] += rows;
        if (names.size() > 1) parts.emplace(trimmed(name));
      }
    }
    for (const std::string& part : parts) alone += column.counts.contains(part) ? 1 : 0;
    joined.sure = separator != ',' || alone == static_cast<int64_t>(parts.size());
    const bool fits = joined.several > 0 && joined.counts.size() <= kMostClasses && joined.counts.size() >= 2;
    if (fits && 2 * alone >= static_cast<int64_t>(parts.size())) return joined;
  }
  return {};
}

bool may_be_classes(const TableColumn& column, int64_t pictures) {
  if (column.counts.size() < 2 || column.counts.size() > kMostClasses || column.empty > 0) return false;
  if (2 * static_cast<int64_t>(column.counts.size()) > pictures) return false;
  return std::all_of(column.counts.begin(), column.counts.end(),
                     [](const auto& entry) { return entry.first.size() <= kLongestClass; });
}

/// The readings of one table: one for each column that may be the label.
class TableReadings {
 public:
  TableReadings(const TableLook& table, const FolderLook& look)
      : table_(table), first_(reading_of(csv_format(), look.root, look)) {
    const std::string& file = table.table().name();
    DataOptions& options = first_.options;
    options.labels = file;
    options.csv.path = table.path_column();
    first_.table = file;
    first_.family = "columns of " + file;
    first_.question = "which column of " + std::string(base_name(file)) + " is the label";
    first_.sees = "a table of labels, " + std::string(base_name(file));
    first_.likelihood = 70;
    first_.why["data.csv.path"] = with_commas(table.pictures()) + " of " + count_of(table.table().rows(), "row") +
                                  " name one of " + count_of(static_cast<int64_t>(look.pictures.size()), "picture");
    if (table.pictures() < table.table().rows()) {
      options.on_missing = OnMissing::skip;
      first_.why["data.on_missing"] =
          with_commas(table.table().rows() - table.pictures()) + " rows name pictures that are not in the folder";
    }
    for (const TableColumn& column : table.columns()) note_others(column);
  }

  std::vector<Reading> all() {
    std::vector<std::string> flags;
    for (const TableColumn& column : table_.columns()) {
      if (taken(column)) continue;
      if (column.flags && !sounds_like_a_trait(column.name) && !sounds_like_labels(column.name))
        flags.push_back(column.name);
      else
        one_column(column);
    }
    if (flags.size() >= 2) several_columns(flags);
    if (flags.size() == 1)
      for (const TableColumn& column : table_.columns())
        if (column.name == flags[0]) one_column(column);
    settle_trust();
    if (found_.empty()) {  // pictures, but no column of labels: what opens nothing still says what is missing
      found_.push_back(first_);
      found_.back().trust = Reading::Trust::asked;
      found_.back().decides = {"data.csv.label"};
    }
    return std::move(found_);
  }

 private:
  bool taken(const TableColumn& column) const {
    return column.name == first_.options.csv.group || column.name == first_.options.csv.split ||
           sounds_like_patients(column.name);
  }

  // Patients and parts.
  void note_others(const TableColumn& column) {
    CsvOptions& csv = first_.options.csv;
    if (csv.group.empty() && sounds_like_patients(column.name) && column.empty == 0 && !column.counts.empty()) {
      csv.group = column.name;
      const bool all = column.counts.size() < kMostDistinct;
      first_.why["data.csv.group"] = (all ? "" : "more than ") +
                                     count_of(static_cast<int64_t>(column.counts.size()), "patient") +
                                     ": each stays in one part, and intervals are by patient";
    } else if (csv.split.empty() && column.parts && column.counts.size() <= 8 && names_training(column)) {
      csv.split = column.name;
      first_.why["data.csv.split"] = "the column names the parts: " + counted(column.counts);
    }
  }

  static bool names_training(const TableColumn& column) {
    return std::any_of(column.counts.begin(), column.counts.end(),
                       [](const auto& entry) { return part_called(entry.first) == "train"; });
  }

  void one_column(const TableColumn& column) {
    const Joined joined = joined_labels(column);
    const bool named = sounds_like_labels(column.name);
    if (joined.separator != 0) {
      Reading reading = first_;
      reading.options.csv.label = column.name;
      reading.options.csv.separator = std::string(1, joined.separator);
      reading.decides = {"data.csv.label", "data.csv.separator"};
      reading.why["data.csv.label"] =
          count_of(static_cast<int64_t>(joined.counts.size()), "label") + ": " + counted(joined.counts);
      reading.why["data.csv.separator"] =
          count_of(joined.several, "picture") + (joined.several == 1 ? " has" : " have") + " several labels";
      reading.trust = named && joined.sure ? Reading::Trust::certain : Reading::Trust::asked;
      found_.push_back(std::move(reading));
      if (joined.separator != ',') return;
    }
    if (!may_be_classes(column, table_.pictures())) return;
    Reading reading = first_;
    reading.options.csv.label = column.name;
    reading.decides = {"data.csv.label"};
    reading.why["data.csv.label"] =
        count_of(static_cast<int64_t>(column.counts.size()), "class", "classes") + ": " + counted(column.counts);
    const bool beside = joined.separator != 0;  // the same column, read otherwise
    reading.trust = named ? (beside ? Reading::Trust::offered : Reading::Trust::certain) : Reading::Trust::asked;
    found_.push_back(std::move(reading));
  }

  void several_columns(const std::vector<std::string>& flags) {
    Reading reading = first_;
    reading.options.csv.labels = flags;
    reading.decides = {"data.csv.labels"};
    reading.why["data.csv.labels"] = "columns of 0 and 1: each is a label that a picture may have";
    reading.trust = Reading::Trust::certain;
    found_.push_back(std::move(reading));
  }

  // Sure of one column alone: where two are equally likely, people are asked. The likely ones come first.
  void settle_trust() {
    std::set<std::string> sure;
    for (const Reading& reading : found_)
      if (reading.trust == Reading::Trust::certain)
        sure.insert(reading.options.csv.label.empty() ? "columns" : reading.options.csv.label);
    const bool only = found_.size() == 1;
    for (Reading& reading : found_) {
      if (sure.size() > 1 && reading.trust == Reading::Trust::certain) reading.trust = Reading::Trust::asked;
      if (only && reading.trust == Reading::Trust::asked) reading.trust = Reading::Trust::offered;
    }
    const auto rank = [](const Reading& r) {
      return (r.trust == Reading::Trust::certain ? 0 : 2) + (sounds_like_a_trait(r.options.csv.label) ? 1 : 0);
    };
    std::stable_sort(found_.begin(), found_.end(),
                     [&](const Reading& a, const Reading& b) { return rank(a) < rank(b); });
    constexpr size_t kMost = 8;
    if (found_.size() > kMost) found_.resize(kMost);
  }

  const TableLook& table_;
  Reading first_;
  std::vector<Reading> found_;
};

}  // namespace

std::vector<Reading> csv_readings(const FolderLook& look) {
  std::vector<Reading> all;
  for (const CsvTable& table : look.tables) {
    const TableLook found(table, look);
    if (found.pictures() == 0) continue;
    for (Reading& reading : TableReadings(found, look).all()) all.push_back(std::move(reading));
  }
  return all;
}

void forget_part_column(DataOptions& options) { options.csv.split.clear(); }

}  // namespace dtrain
