#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>

#include "dtrain/base/spelling.hpp"
#include "dtrain/data/formats.hpp"
#include "dtrain/data/label_rows.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> pictures_of(const DataOptions& options) {
  return scan_folder(options.root, options.root, options.allow_links).pictures;
}

// One sample for each picture that has a row; `fill` adds its labels.
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

// `pictures` lie beneath root; the samples are those that `tables` name.
void note_unnamed(size_t pictures, const std::string& tables, Dataset& dataset) {
  const auto unnamed = static_cast<int64_t>(pictures - dataset.samples.size());
  if (unnamed > 0)
    dataset.notes.push_back(count_of(unnamed, "picture") + " beneath data.root named by no row of " + tables +
                            " left out");
}

std::string text_at(const CsvTable& table, int64_t row, int64_t column) {
  return std::string(trimmed(table.at(row, column)));
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

void require_part_words(const LabelFile& file, int64_t column, const std::string& name) {
  Problems bad;
  for (const int64_t row : file.row_of)
    if (row >= 0 && part_called(text_at(file.table, row, column)).empty())
      bad.lines.push_back("line " + std::to_string(file.table.line(row)) + ": '" + text_at(file.table, row, column) +
                          "'");
  bad.raise<DataError>(file.table.name() + " has words in column '" + name +
                       "' (data.csv.split) that are neither train, valid nor test, nor another usual word for them");
}

// The classes that stand in a column of the rows that have a picture, natural order.
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

/// Names to places, for labels joined in one field.
class JoinedLabels {
 public:
  JoinedLabels(const std::vector<std::string>& classes, char separator)
      : separator_(separator), count_(classes.size()) {
    for (size_t i = 0; i < classes.size(); ++i) places_.emplace(classes[i], i);
  }

  /// 1 for each name in `field`, 0 else; names that are no class go to `unknown`.
  std::vector<float> read(const std::string& field, std::vector<std::string>& unknown) const {
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

 private:
  char separator_;
  size_t count_;
  std::unordered_map<std::string, size_t> places_;
};

float known_or_nan(const std::string& text, bool& good) {
  good = true;
  if (text == "0" || text == "0.0") return 0;
  if (text == "1" || text == "1.0") return 1;
  good = text.empty();
  return std::numeric_limits<float>::quiet_NaN();
}

void read_label_columns(const DataOptions& options, const LabelFile& file, Dataset& dataset,
                        const std::function<void(int64_t, Sample&)>& set_row) {
  const CsvTable& table = file.table;
  std::vector<int64_t> columns;
  for (const std::string& name : options.csv.labels) columns.push_back(table.column(name));
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
  bad.raise<DataError>(table.name() + " has labels that are neither 1, 0 nor empty (unknown)");
  note_unknown("empty", dataset);
}

void read_label_column(const DataOptions& options, const LabelFile& file, Dataset& dataset,
                       const std::function<void(int64_t, Sample&)>& set_row) {
  const CsvTable& table = file.table;
  const int64_t column = table.column(options.csv.label);
  const std::optional<char> character = lone_character(options.csv.separator);
  if (!options.csv.separator.empty() && !character) throw ConfigError("data.csv.separator wants one character");
  const char separator = character.value_or('\0');
  dataset.classes = classes_in(file, column, separator);
  std::unordered_map<std::string, int64_t> places;
  for (const std::string& name : dataset.classes) places.emplace(name, static_cast<int64_t>(places.size()));
  const JoinedLabels joined(dataset.classes, separator);
  Problems bad;
  add_pictures_with_rows(file, dataset, [&](int64_t row, Sample& sample) {
    set_row(row, sample);
    const std::string text = text_at(table, row, column);
    std::vector<std::string> none;  // every name in the column is a class
    if (separator != 0) {
      sample.labels = joined.read(text, none);
    } else if (text.empty()) {
      bad.lines.push_back("line " + std::to_string(table.line(row)) + ": '" + sample.path + "'");
    } else {
      sample.class_index = places.at(text);
    }
  });
  note_unnamed(file.pictures.size(), std::string(base_name(table.name())), dataset);
  bad.raise<DataError>(table.name() + " has no class in column '" + options.csv.label + "' for");
}

// --- CheXpert

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

// The label files and the part each is of; "" where data.split decides.
std::vector<std::pair<std::string, std::string>> chexpert_files(const DataOptions& options) {
  if (!options.labels.empty()) return {{options.labels, ""}};
  std::vector<std::pair<std::string, std::string>> files;
  for (const char* part : {"train", "valid", "test"})
    if (const std::string path = (fs::path(options.root) / part).string() + ".csv"; is_file(path))
      files.emplace_back(path, part);
  if (files.empty() || files[0].second != "train")
    throw MissingError("data.root '" + options.root +
                       "' holds no train.csv; set data.root to the folder of CheXpert that does, or data.labels to the "
                       "label file");
  return files;
}

// "patient00001" of train/patient00001/study1/view1_frontal.jpg, "" where no folder is called so.
std::string chexpert_patient(std::string_view path) {
  const size_t place = path.starts_with("patient") ? 0 : path.find("/patient") + 1;
  const size_t end = path.find('/', place);
  const bool found = path.substr(place).starts_with("patient") && end != std::string_view::npos;
  return std::string(found ? path.substr(place, end - place) : "");
}

/// Reads one cell after another and counts what was not plain 1 or 0.
class ChexpertCells {
 public:
  explicit ChexpertCells(const ChexpertOptions& options) : unmentioned_(options.unmentioned_unknown ? kUnknown : 0) {
    for (const std::string& name : chexpert_observations()) {
      const auto own = options.uncertain_labels.find(name);
      const Uncertain policy = own == options.uncertain_labels.end() ? options.uncertain : own->second;
      uncertain_.push_back(policy == Uncertain::ignore ? kUnknown : policy == Uncertain::ones ? 1.0F : 0.0F);
    }
  }

  float read(const std::string& text, size_t label, bool& good) {
    good = true;
    if (text == "-1.0" || text == "-1") {
      ++(std::isnan(uncertain_[label]) ? ignored_ : uncertain_[label] == 1 ? ones_ : zeros_);
      return uncertain_[label];
    }
    if (!text.empty()) return known_or_nan(text, good);
    ++empty_;
    return unmentioned_;
  }

  void note(Dataset& dataset) const {
    const std::string counts =
        with_commas(ones_) + " taken as 1, " + with_commas(zeros_) + " as 0, " + with_commas(ignored_) + " as unknown";
    if (ones_ + zeros_ + ignored_ > 0)
      dataset.notes.push_back(count_of(ones_ + zeros_ + ignored_, "uncertain label") + " (-1): " + counts);
    if (empty_ > 0)
      dataset.notes.push_back(count_of(empty_, "label") + " not mentioned (empty): taken as " +
                              (std::isnan(unmentioned_) ? "unknown" : "0"));
  }

 private:
  float unmentioned_;
  std::vector<float> uncertain_;  // of each observation
  int64_t ones_ = 0;
  int64_t zeros_ = 0;
  int64_t ignored_ = 0;
  int64_t empty_ = 0;
};

void add_chexpert(const LabelFile& file, const std::string& part, ChexpertCells& cells, Dataset& dataset) {
  const CsvTable& table = file.table;
  std::vector<int64_t> columns;
  for (const std::string& name : chexpert_observations()) columns.push_back(table.column(name));
  Problems bad;
  add_pictures_with_rows(file, dataset, [&](int64_t row, Sample& sample) {
    sample.group = chexpert_patient(sample.path);
    sample.part = part;
    for (size_t k = 0; k < columns.size(); ++k) {
      bool good = true;
      const std::string text = text_at(table, row, columns[k]);
      sample.labels.push_back(cells.read(text, k, good));
      if (!good)
        bad.lines.push_back("line " + std::to_string(table.line(row)) + ": '" + text + "' in column '" +
                            chexpert_observations()[k] + "'");
    }
  });
  bad.raise<DataError>(table.name() + " has labels that are neither 1, 0, -1 (uncertain) nor empty");
}

}  // namespace

void read_chexpert(const DataOptions& options, Dataset& dataset) {
  dataset.classes = chexpert_observations();
  ChexpertCells cells(options.chexpert);
  std::vector<std::string> pictures = pictures_of(options);
  std::vector<bool> named(pictures.size(), false);
  std::vector<std::string> tables;
  Problems twice;
  for (const auto& [path, part] : chexpert_files(options)) {
    LabelFile file = match_rows(options, path, std::move(pictures), "Path", find_beneath_dropped_folders, dataset);
    SampleTable table(dataset);
    for (size_t i = 0; i < file.pictures.size(); ++i) {
      if (file.row_of[i] < 0) continue;
      if (named[i]) twice.lines.push_back(path + ":" + std::to_string(file.table.line(file.row_of[i])));
      named[i] = true;
    }
    twice.raise<DataError>("two label files have a row for one picture");
    add_chexpert(file, part, cells, dataset);
    tables.emplace_back(base_name(path));
    pictures = std::move(file.pictures);
  }
  note_unnamed(pictures.size(), join(tables, ", "), dataset);
  cells.note(dataset);
  note_unknown("ignored", dataset);
}

void read_nih_cxr14(const DataOptions& options, Dataset& dataset) {
  const LabelFile file =
      match_rows(options, options.labels, pictures_of(options), "Image Index", find_base_name, dataset);
  const CsvTable& table = file.table;
  const int64_t findings = table.column("Finding Labels");
  const std::optional<int64_t> patient = table.find_column("Patient ID");
  dataset.classes = nih_findings();
  const JoinedLabels joined(dataset.classes, '|');
  Problems bad;
  add_pictures_with_rows(file, dataset, [&](int64_t row, Sample& sample) {
    sample.group = patient ? text_at(table, row, *patient) : std::string(group_of_name(sample.path));
    const std::string text = text_at(table, row, findings);
    std::vector<std::string> unknown;
    sample.labels = joined.read(text, unknown);
    if (unknown == std::vector<std::string>{"No Finding"} && text == "No Finding") return;
    if (text.empty()) unknown.emplace_back("");
    for (const std::string& name : unknown) {
      const std::string near = nearest_word(name, nih_findings());
      bad.lines.push_back("line " + std::to_string(table.line(row)) + ": '" + name + "'" +
                          (near.empty() ? "" : " (did you mean '" + near + "'?)"));
    }
  });
  note_unnamed(file.pictures.size(), std::string(base_name(table.name())), dataset);
  bad.raise<DataError>(table.name() + " has labels that are none of the 14 findings nor 'No Finding' alone");
}

void read_csv(const DataOptions& options, Dataset& dataset) {
  if (options.csv.labels.empty() == options.csv.label.empty())
    throw ConfigError("format csv wants either data.csv.labels (one column per label) or data.csv.label (one column)");
  const LabelFile file =
      match_rows(options, options.labels, pictures_of(options), options.csv.path, find_path, dataset);
  std::optional<int64_t> group;
  std::optional<int64_t> part;
  if (!options.csv.group.empty()) group = file.table.column(options.csv.group);
  if (!options.csv.split.empty()) part = file.table.column(options.csv.split);
  if (part) require_part_words(file, *part, options.csv.split);
  const auto set_row = [&](int64_t row, Sample& sample) {
    if (group) sample.group = text_at(file.table, row, *group);
    if (part) sample.part = part_called(text_at(file.table, row, *part));
  };
  if (options.csv.label.empty()) return read_label_columns(options, file, dataset, set_row);
  read_label_column(options, file, dataset, set_row);
}

}  // namespace dtrain
