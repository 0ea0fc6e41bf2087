#include "dtrain/data/formats/label_rows.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "dtrain/base/shell_word.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/text_files.hpp"

namespace dtrain {

namespace fs = std::filesystem;

int64_t find_base_name(const PathIndex& index, const std::string& name) { return index.find_name(name); }

int64_t find_path(const PathIndex& index, const std::string& name) {
  return index.find(name.starts_with("./") ? name.substr(2) : name);
}

int64_t find_beneath_dropped_folders(const PathIndex& index, const std::string& name) {
  std::string_view rest = name;
  for (size_t slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    if (const int64_t found = index.find(rest); found != PathIndex::kNone) return found;
    rest.remove_prefix(slash + 1);
  }
  return PathIndex::kNone;
}

namespace {

CsvTable read_table(const DataOptions& options, const std::string& path) {
  std::error_code error;
  if (!path.empty() && fs::status(path, error).type() == fs::file_type::not_found)
    throw MissingError("data.labels '" + path + "' does not exist; set data.labels to the label file");
  refuse_link_out(options, path);
  return CsvTable::read(path, kMostTableBytes);
}

bool leaves_root(const std::string& name) {
  return name.starts_with('/') || name == ".." || name.starts_with("../") || name.find("/../") != std::string::npos;
}

bool beyond_ascii(const std::string& name) {
  return std::any_of(name.begin(), name.end(), [](char letter) { return (letter & 0x80) != 0; });
}

/// Rows for which no picture was found, and why.
class AbsentRows {
 public:
  AbsentRows(const DataOptions& options, const std::vector<std::string>& pictures, const CsvTable& table)
      : options_(options), pictures_(pictures), table_(table) {}

  void add(const std::string& text, const std::string& name) {
    unicode_ = unicode_ || beyond_ascii(name);
    if (first_.empty()) first_ = name;
    const bool there = !name.empty() && is_file((fs::path(options_.root) / name).string());
    const bool stack = there && has_image_extension(name);
    const bool backslash = name.find('\\') != std::string::npos;
    const std::string why = stack       ? " (a stack: name its pages as " + name + "#1)"
                            : there     ? " (no picture by its name)"
                            : backslash ? " (write / between folders, not \\)"
                                        : "";
    if (options_.on_missing == OnMissing::fail || there || backslash) {
      wrong_.lines.push_back(text + why);
    } else {
      skipped_.lines.push_back(text);
      names_.push_back(name.starts_with("./") ? name.substr(2) : name);
    }
  }

  /// Throws for rows that are wrong, and notes the skipped ones in `dataset`.
  void settle(Dataset& dataset) {
    const int64_t wrong = count(wrong_);
    const int64_t skipped = count(skipped_);
    const std::string root = "data.root '" + options_.root + "'";
    if (table_.rows() > 0 && wrong + skipped == table_.rows()) {
      const Problems& all = wrong > 0 ? wrong_ : skipped_;
      all.raise<MissingError>(root + " holds no picture that " + table_.name() + " names in " +
                              count_of(table_.rows(), "row") + " (is it the folder that these paths start from?)" +
                              cure() + hint());
    }
    const std::string what_to_do =
        options_.on_missing == OnMissing::fail
            ? "remove the rows, add the files, or set data.on_missing: skip to leave them out"
            : "correct or remove the rows; data.on_missing: skip is for missing files";
    wrong_.raise<MissingError>(table_.name() + " names " + count_of(wrong, "picture") + " that " + root +
                               " does not hold (" + what_to_do + ")" + hint());
    if (skipped == 0) return;
    dataset.notes.push_back(
        count_of(skipped, "row") + " of " + std::string(base_name(table_.name())) +
        " left out because data.root does not hold their pictures (data.on_missing: skip), such as " +
        skipped_.lines.front() + hint());
    dataset.left_out.insert(dataset.left_out.end(), names_.begin(), names_.end());
  }

 private:
  static int64_t count(const Problems& problems) { return static_cast<int64_t>(problems.lines.size()); }

  // Where no row has a picture: what the first row's name has in common with a picture's.
  std::string cure() const {
    if (pictures_.empty()) return "; no picture at all is under it: correct data.root";
    const std::string wanted(base_name(first_));
    for (const std::string& picture : pictures_) {
      if (base_name(picture) == wanted)
        return "; it has " + picture + ": write the path so, or the name " + wanted + " alone";
      if (!wanted.empty() && !has_image_extension(wanted) && without_ending(base_name(picture)) == wanted)
        return "; it has " + picture + ", so write " + std::string(base_name(picture)) + " for " + wanted;
    }
    return "; it has pictures such as " + pictures_.front() + ": correct the names, or data.root";
  }

  // Unicode has two forms of é, which look the same: one letter (NFC), or e and an accent (NFD, which macOS writes).
  std::string hint() const {
    if (!unicode_ || std::none_of(pictures_.begin(), pictures_.end(), beyond_ascii)) return "";
    return "; names with letters beyond ASCII may exist in another composition (NFC, NFD): convert both to NFC, the "
           "files with convmv -r -f utf8 -t utf8 --nfc --notest DIR, the list with Python's unicodedata.normalize";
  }

  const DataOptions& options_;
  const std::vector<std::string>& pictures_;
  const CsvTable& table_;
  Problems wrong_;
  Problems skipped_;
  std::vector<std::string> names_;  // of the skipped rows
  std::string first_;               // of all rows
  bool unicode_ = false;
};

// The column, or why the table has none, as far as its first lines say.
int64_t column_of_names(const DataOptions& options, const CsvTable& table, const std::string& column,
                        const std::string& key) {
  if (const auto found = table.find_column(column)) return *found;
  const std::vector<std::string>& columns = table.columns();
  if (const DataFormat* format = format_of_columns(table); format != nullptr && format != options.format)
    throw DataError(table.name() + " has no column '" + column + "'; its columns are those of data.format=" +
                    format->name + ", which reads it without further keys");
  const auto is_picture = [](const std::string& text) { return has_image_extension(std::string(trimmed(text))); };
  if (std::any_of(columns.begin(), columns.end(), is_picture))
    throw DataError(table.name() + " has no header: its first line (" + join(columns, ", ") +
                    ") names a picture already; write the names of the columns above it, such as " + column + ",label");
  for (size_t i = 0; i < columns.size() && table.rows() > 0 && !key.empty(); ++i)
    if (is_picture(table.at(0, static_cast<int64_t>(i))))
      throw DataError(table.name() + " has no column '" + column + "', which " + key + " names; '" + columns[i] +
                      "' holds names of pictures: " + shell_word(key + "=" + columns[i]));
  return table.column(column, key);
}

}  // namespace

const DataFormat* format_of_columns(const CsvTable& table) {
  const auto has = [&](const std::string& name) { return table.find_column(name).has_value(); };
  for (const DataFormat* format : data_formats())
    if (const auto& known = format->table_columns; !known.empty() && std::all_of(known.begin(), known.end(), has))
      return format;
  return nullptr;
}

LabelFile match_rows(const DataOptions& options, const std::string& path, std::vector<std::string> pictures,
                     const std::string& column, const std::string& key, Finder find, Dataset& dataset) {
  LabelFile file{read_table(options, path), std::move(pictures), {}};
  PathIndex index;
  for (size_t i = 0; i < file.pictures.size(); ++i) index.add(file.pictures[i], static_cast<int64_t>(i));
  file.row_of.assign(file.pictures.size(), -1);
  const CsvTable& table = file.table;
  const int64_t names = column_of_names(options, table, column, key);
  AbsentRows absent(options, file.pictures, table);
  Problems twice, several, outside;
  for (int64_t row = 0; row < table.rows(); ++row) {
    const std::string name(trimmed(table.at(row, names)));
    const std::string text = "line " + std::to_string(table.line(row)) + ": '" + name + "'";
    if (leaves_root(name)) {
      outside.lines.push_back(text);
      continue;
    }
    const int64_t picture = find(index, name);
    if (picture == PathIndex::kNone) {
      absent.add(text, name);
    } else if (picture == PathIndex::kSeveral) {
      several.lines.push_back(text);
    } else if (int64_t& taken = file.row_of[static_cast<size_t>(picture)]; taken >= 0) {
      twice.lines.push_back(text + ", as in line " + std::to_string(table.line(taken)));
    } else {
      taken = row;
    }
  }
  outside.raise<DataError>(table.name() + " names paths outside data.root; write them relative to it");
  absent.settle(dataset);
  several.raise<DataError>("data.root '" + options.root + "' holds several pictures of one base name that " +
                           table.name() + " names");
  twice.raise<DataError>(table.name() + " has two rows for one picture; keep one of them");
  return file;
}

std::vector<std::string> pictures_beneath(const DataOptions& options) {
  return scan_folder(options.root, options.root, options.allow_links).pictures;
}

std::string text_at(const CsvTable& table, int64_t row, int64_t column) {
  return std::string(trimmed(table.at(row, column)));
}

void add_pictures_with_rows(const LabelFile& file, Dataset& dataset,
                            const std::function<void(int64_t row, Sample&)>& fill) {
  SampleTable table(dataset);
  for (size_t i = 0; i < file.pictures.size(); ++i) {
    if (file.row_of[i] < 0) continue;
    Sample sample;
    sample.path = file.pictures[i];
    fill(file.row_of[i], sample);
    table.add(std::move(sample));
  }
}

void note_unnamed(size_t pictures, const std::string& tables, Dataset& dataset) {
  const auto unnamed = static_cast<int64_t>(pictures - dataset.samples.size());
  if (unnamed > 0)
    dataset.notes.push_back(count_of(unnamed, "picture") + " under data.root named by no row of " + tables +
                            " left out");
}

void note_unknown(const std::string& why, Dataset& dataset) {
  int64_t unknown = 0;
  int64_t silent = 0;
  for (const Sample& sample : dataset.samples) {
    const auto nan = std::count_if(sample.labels.begin(), sample.labels.end(), [](float x) { return std::isnan(x); });
    unknown += nan;
    silent += nan == static_cast<int64_t>(sample.labels.size()) ? 1 : 0;
  }
  if (unknown > 0)
    dataset.notes.push_back(count_of(unknown, "label") + " unknown (" + why + "), left out of loss and metrics");
  if (silent > 0) dataset.notes.push_back(count_of(silent, "picture") + " without any known label");
}

float known_or_nan(const std::string& text, bool& good) {
  good = true;
  if (text == "0" || text == "0.0") return 0;
  if (text == "1" || text == "1.0") return 1;
  good = text.empty();
  return std::numeric_limits<float>::quiet_NaN();
}

JoinedLabels::JoinedLabels(const std::vector<std::string>& classes, char separator)
    : separator_(separator), count_(classes.size()) {
  for (size_t i = 0; i < classes.size(); ++i) places_.emplace(classes[i], i);
}

std::vector<float> JoinedLabels::read(const std::string& field, std::vector<std::string>& unknown) const {
  std::vector<float> labels(count_, 0);
  for (const std::string& part : split_text(field, separator_)) {
    const std::string name(trimmed(part));
    const auto place = places_.find(name);
    if (place != places_.end()) {
      labels[place->second] = 1;
    } else if (!name.empty()) {
      unknown.push_back(name);
    }
  }
  return labels;
}

}  // namespace dtrain
