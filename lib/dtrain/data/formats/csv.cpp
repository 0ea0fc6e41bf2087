#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>

#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/spelling.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/label_rows.hpp"

namespace dtrain {

namespace {

// One label per sample, or several; the task that the keys ask for comes first.
std::vector<Task> tasks_of_csv(const DataOptions& options) {
  const bool several = !options.csv.labels.empty() || !options.csv.separator.empty();
  if (several) return {Task::multilabel, Task::multiclass};
  return {Task::multiclass, Task::multilabel};
}

// What a table says of the keys that are missing, if it can be read: "; its columns are …".
std::string columns_told(const std::string& path) {
  try {
    const CsvTable table = CsvTable::read(path, kMostTableBytes);
    const std::vector<std::string>& columns = table.columns();
    if (const DataFormat* format = format_of_columns(table); format != nullptr)
      return "; the columns of " + std::string(base_name(path)) + " are those of data.format=" + format->name +
             ", which needs neither";
    constexpr size_t kMost = 30;
    std::vector<std::string> some(columns.begin(),
                                  columns.begin() + static_cast<int64_t>(std::min(kMost, columns.size())));
    return "; the columns of " + std::string(base_name(path)) + " are: " + join(some, ", ") +
           (columns.size() > kMost ? " …" : "");
  } catch (const Error&) {
    return "";  // opening the data says what is wrong with it
  }
}

void check_csv(const DataOptions& options, Task task, KeyReport& report) {
  const CsvOptions& csv = options.csv;
  if (options.split.by == SplitOptions::By::patient && csv.group.empty() &&
      report.sound({"data.split.by", "data.csv.group"}))
    report.wrong({"data.split.by"}, "data.split.by patient needs data.csv.group, the column that names the patient");
  if (!report.sound({"data.csv.labels", "data.csv.label", "data.csv.separator"})) return;
  if (!csv.labels.empty() && !csv.label.empty())
    return report.wrong({"data.csv.label"}, "data.csv.label and data.csv.labels (" + report.where("data.csv.labels") +
                                                ") cannot be combined; keep one");
  if (csv.labels.empty() && csv.label.empty())
    return report.wrong({"data.format"},
                        "format csv needs data.csv.labels (one column per label) or data.csv.label (one column)" +
                            columns_told(options.labels));
  if (!csv.separator.empty() && csv.label.empty())
    report.wrong({"data.csv.separator"}, "data.csv.separator has no effect here: it goes with data.csv.label");
  if (!csv.separator.empty() && !lone_character(csv.separator))
    report.wrong({"data.csv.separator"}, "data.csv.separator wants one character, not '" + csv.separator + "'");
  if (!report.sound({"task"})) return;
  const bool several = tasks_of_csv(options).front() == Task::multilabel;
  if (several && task == Task::multiclass)
    report.wrong({"task"}, "task multiclass wants one class per picture: data.csv.label without data.csv.separator");
  if (!several && task == Task::multilabel)
    report.wrong({"task"}, "task multilabel wants data.csv.labels, or data.csv.separator beside data.csv.label");
}

void require_part_words(const LabelFile& file, int64_t column, const std::string& name) {
  Problems bad;
  for (const int64_t row : file.row_of)
    if (row >= 0 && part_called(text_at(file.table, row, column)).empty())
      bad.lines.push_back("line " + std::to_string(file.table.line(row)) + ": '" + text_at(file.table, row, column) +
                          "'");
  bad.raise<DataError>(
      file.table.name() + " has words in column '" + name +
      "' (data.csv.split) that are neither train, valid nor test, nor another usual word for them; write those");
}

// The classes that occur in a column, in the rows that have a picture; natural order.
std::vector<std::string> classes_in(const LabelFile& file, int64_t column, char separator) {
  const CsvTable& table = file.table;
  std::vector<std::string> classes;
  std::unordered_map<std::string, bool> seen;
  for (const int64_t row : file.row_of) {
    if (row < 0) continue;
    for (const std::string& part : separator == 0 ? std::vector<std::string>{table.at(row, column)}
                                                  : split_text(table.at(row, column), separator))
      if (const std::string name(trimmed(part)); !name.empty() && seen.emplace(name, true).second) {
        require_plain_name(name, table.name() + ":" + std::to_string(table.line(row)) + ": the class",
                           "save the file as UTF-8");
        classes.push_back(name);
      }
  }
  std::sort(classes.begin(), classes.end(), natural_less);
  return classes;
}

// A note if the name of a class is several other classes' names joined in one field; else "".
std::string joined_classes(const std::vector<std::string>& classes) {
  const std::set<std::string> known(classes.begin(), classes.end());
  for (const std::string& name : classes)
    for (const char separator : {'|', ';', ',', '/', '+', '&'}) {
      const std::vector<std::string> parts = split_text(name, separator);
      const auto is_class = [&](const std::string& part) { return known.contains(std::string(trimmed(part))); };
      if (parts.size() > 1 && std::all_of(parts.begin(), parts.end(), is_class))
        return "'" + name + "' is a class besides those that it joins; if a picture may have several, set " +
               shell_word(std::string("data.csv.separator=\"") + separator + "\"");
    }
  return "";
}

// 0.25, 0.5, 1.75 as classes: measurements, each a class of its own.
bool are_measurements(const std::vector<std::string>& classes) {
  const auto is_fraction = [](const std::string& name) {
    return name.find('.') != std::string::npos && name.find_first_not_of("+-.0123456789eE") == std::string::npos &&
           name.find_last_not_of(".0") > name.find('.');
  };
  constexpr int64_t kMany = 3;
  return std::count_if(classes.begin(), classes.end(), is_fraction) >= kMany;
}

void read_label_columns(const DataOptions& options, const LabelFile& file, Dataset& dataset,
                        const std::function<void(int64_t, Sample&)>& set_row) {
  const CsvTable& table = file.table;
  std::vector<int64_t> columns;
  for (const std::string& name : options.csv.labels) columns.push_back(table.column(name, "data.csv.labels"));
  dataset.classes = options.csv.labels;
  Problems bad;
  add_pictures_with_rows(file, dataset, [&](int64_t row, Sample& sample) {
    set_row(row, sample);
    for (size_t k = 0; k < columns.size(); ++k) {
      bool good = true;
      const std::string text = text_at(table, row, columns[k]);
      sample.labels.push_back(known_or_nan(text, good));
      if (!good)
        bad.lines.push_back("line " + std::to_string(table.line(row)) + ": '" + text + "' in column '" +
                            options.csv.labels[k] + "'");
    }
  });
  note_unnamed(file.pictures.size(), std::string(base_name(table.name())), dataset);
  bad.raise<DataError>(table.name() + " has labels that are neither 1, 0 nor empty (unknown); correct them");
  note_unknown("empty", dataset);
}

void read_label_column(const DataOptions& options, const LabelFile& file, Dataset& dataset,
                       const std::function<void(int64_t, Sample&)>& set_row) {
  const CsvTable& table = file.table;
  const int64_t column = table.column(options.csv.label, "data.csv.label");
  const std::optional<char> character = lone_character(options.csv.separator);
  if (!options.csv.separator.empty() && !character) throw ConfigError("data.csv.separator wants one character");
  const char separator = character.value_or('\0');
  dataset.classes = classes_in(file, column, separator);
  if (const std::string note = separator == 0 ? joined_classes(dataset.classes) : ""; !note.empty())
    dataset.warnings.push_back(note);
  if (separator == 0 && are_measurements(dataset.classes))
    dataset.warnings.push_back("the " + count_of(static_cast<int64_t>(dataset.classes.size()), "value") +
                               " of column '" + options.csv.label + "', such as " + dataset.classes.back() +
                               ", are taken for classes: measured numbers are not predicted; write classes instead");
  std::unordered_map<std::string, int64_t> places;
  for (const std::string& name : dataset.classes) places.emplace(name, static_cast<int64_t>(places.size()));
  const JoinedLabels joined(dataset.classes, separator);
  Problems bad;
  add_pictures_with_rows(file, dataset, [&](int64_t row, Sample& sample) {
    set_row(row, sample);
    const std::string text = text_at(table, row, column);
    std::vector<std::string> none;  // stays empty: every name in the column is a class
    if (separator != 0) {
      sample.labels = joined.read(text, none);
    } else if (text.empty()) {
      bad.lines.push_back("line " + std::to_string(table.line(row)) + ": '" + sample.path + "'");
    } else {
      sample.class_index = places.at(text);
    }
  });
  note_unnamed(file.pictures.size(), std::string(base_name(table.name())), dataset);
  bad.raise<DataError>(table.name() + " has no class in column '" + options.csv.label +
                       "'; fill it in, or take the rows out");
}

}  // namespace

bool sounds_like_patients(std::string_view column) {
  static const std::set<std::string> likely = {"patient", "patientid", "patientnumber", "subject", "subjectid", "mrn"};
  std::string letters = lower_case(column);
  std::erase_if(letters, [](char c) { return c == ' ' || c == '_' || c == '-' || c == '.'; });
  return likely.contains(letters);
}

namespace {

// A column named like one of patients, with one value in several rows, that the configuration does not use.
std::string unused_patients(const CsvTable& table, const CsvOptions& csv) {
  if (!csv.group.empty()) return "";
  for (size_t column = 0; column < table.columns().size(); ++column) {
    const std::string& name = table.columns()[column];
    const bool label = name == csv.label || std::find(csv.labels.begin(), csv.labels.end(), name) != csv.labels.end();
    if (!sounds_like_patients(name) || label || name == csv.path || name == csv.split) continue;
    std::set<std::string> seen;
    for (int64_t row = 0; row < table.rows(); ++row)
      if (const std::string& patient = table.at(row, static_cast<int64_t>(column));
          !patient.empty() && !seen.insert(patient).second)
        return name;
  }
  return "";
}

// A column of folds, by its name, with a few values.
bool is_fold_column(const CsvTable& table, size_t column) {
  constexpr size_t kMostFolds = 20;
  const std::string name = lower_case(table.columns()[column]);
  if (name != "fold" && name != "folds" && name != "kfold") return false;
  std::set<std::string> values;
  for (int64_t row = 0; row < table.rows() && values.size() <= kMostFolds; ++row)
    values.insert(table.at(row, static_cast<int64_t>(column)));
  return values.size() > 1 && values.size() <= kMostFolds;
}

// A column with two of the words for parts, and nothing else, that the configuration does not use.
std::string unused_parts(const CsvTable& table, const CsvOptions& csv) {
  for (size_t column = 0; column < table.columns().size(); ++column) {
    const std::string& name = table.columns()[column];
    const bool label = name == csv.label || std::find(csv.labels.begin(), csv.labels.end(), name) != csv.labels.end();
    if (label || name == csv.path || name == csv.group) continue;
    std::set<std::string> parts;
    for (int64_t row = 0; row < table.rows(); ++row) {
      parts.insert(part_called(table.at(row, static_cast<int64_t>(column))));
      if (parts.contains("")) break;
    }
    if (parts.size() > 1 && !parts.contains("")) return name;
  }
  return "";
}

void read_csv(const DataOptions& options, uint64_t /*seed*/, Dataset& dataset) {
  if (dataset.task != tasks_of_csv(options).front()) refuse_task(options, dataset.task);
  if (options.csv.labels.empty() == options.csv.label.empty())
    throw ConfigError("format csv wants either data.csv.labels (one column per label) or data.csv.label (one column)");
  const LabelFile file = match_rows(options, options.labels, pictures_beneath(options), options.csv.path,
                                    "data.csv.path", find_path, dataset);
  std::optional<int64_t> group;
  std::optional<int64_t> part;
  if (!options.csv.group.empty()) group = file.table.column(options.csv.group, "data.csv.group");
  dataset.unused_patients = unused_patients(file.table, options.csv);
  if (!dataset.unused_patients.empty())
    dataset.notes.push_back("the column '" + dataset.unused_patients +
                            "' is not used; if it identifies patients, name it: " +
                            shell_word("data.csv.group=\"" + dataset.unused_patients + "\""));
  if (!options.csv.split.empty()) part = file.table.column(options.csv.split, "data.csv.split");
  const SplitOptions& split = options.split;
  const bool by_names = part || !split.files.empty() || !split.folders.empty();
  if (const std::string unused = by_names ? "" : unused_parts(file.table, options.csv); !unused.empty())
    dataset.warnings.push_back("the column '" + unused +
                               "' names parts, and data.split deals all pictures out instead; " + "to use it, write " +
                               shell_word("data.csv.split=" + unused));
  for (size_t column = 0; column < file.table.columns().size() && !by_names; ++column)
    if (is_fold_column(file.table, column))
      dataset.warnings.push_back(
          "the column '" + file.table.columns()[column] +
          "' is not used, and data.split deals folds or parts of its own; to use it, write train "
          "and valid into a column and name that with data.csv.split");
  if (part) require_part_words(file, *part, options.csv.split);
  if (part) dataset.own_parts = {OwnParts::By::column, "data.csv.split '" + options.csv.split + "'", true};
  const auto set_row = [&](int64_t row, Sample& sample) {
    if (group) sample.group = text_at(file.table, row, *group);
    if (part) sample.part = part_called(text_at(file.table, row, *part));
  };
  if (options.csv.label.empty()) return read_label_columns(options, file, dataset, set_row);
  read_label_column(options, file, dataset, set_row);
}

}  // namespace

/// See CsvOptions; the path column is a path under root, or a base name found at any depth. One label column: its
/// values are the classes, in natural order; without separator an empty value is an error. Multilabel columns: 1, 0,
/// or empty for unknown.
const DataFormat& csv_format() {
  static const DataFormat kFormat = {
      .name = "csv",
      .wants = "a table, data.labels, with a row for each picture",
      .task_default = "multilabel with `csv.labels` or `csv.separator`, else multiclass",
      .tasks = tasks_of_csv,
      .open = read_csv,
      .check = check_csv,
      .readings = csv_readings,
      .class_names =
          [](const DataOptions& options) {
            const std::vector<std::string>& labels = options.csv.labels;
            return labels.empty() ? std::nullopt : std::optional(labels);
          },
      .class_keys = {"data.csv.labels"},
      .label_file = DataFormat::LabelFile::required,
      .group_key = "data.csv.group",
  };
  return kFormat;
}

}  // namespace dtrain
