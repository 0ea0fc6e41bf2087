#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/label_rows.hpp"

namespace dtrain {

namespace fs = std::filesystem;

const DataFormat& chexpert_format();

namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

// The label files, each with its part; "" if data.split decides.
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

// "patient00001" of train/patient00001/study1/view1_frontal.jpg; "" if no folder has such a name.
std::string chexpert_patient(std::string_view path) {
  const size_t place = path.starts_with("patient") ? 0 : path.find("/patient") + 1;
  const size_t end = path.find('/', place);
  const bool found = path.substr(place).starts_with("patient") && end != std::string_view::npos;
  return std::string(found ? path.substr(place, end - place) : "");
}

/// Reads one cell after another and counts those that are not plain 1 or 0.
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

void read_chexpert(const DataOptions& options, uint64_t /*seed*/, Dataset& dataset) {
  dataset.classes = chexpert_observations();
  if (options.labels.empty()) dataset.own_parts = {OwnParts::By::names, "the lists train.csv and valid.csv"};
  ChexpertCells cells(options.chexpert);
  std::vector<std::string> pictures = pictures_beneath(options);
  std::vector<bool> named(pictures.size(), false);
  std::vector<std::string> tables;
  Problems twice;
  for (const auto& [path, part] : chexpert_files(options)) {
    LabelFile file = match_rows(options, path, std::move(pictures), "Path", "", find_beneath_dropped_folders, dataset);
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

bool has_observations(const CsvTable& table) {
  const auto has = [&](const std::string& name) { return table.find_column(name).has_value(); };
  return has("Path") && std::all_of(chexpert_observations().begin(), chexpert_observations().end(), has);
}

std::vector<Reading> chexpert_readings(const FolderLook& look) {
  std::vector<Reading> all;
  for (const CsvTable& table : look.tables) {
    if (!has_observations(table)) continue;
    std::vector<Reading> of_table = readings_of_table(chexpert_format(), table, look);
    const std::string lists = fs::path(table.name()).parent_path().string();
    if (base_name(table.name()) == "train.csv") {
      of_table.insert(of_table.begin(), of_table[0]);  // the official lists, which are the parts
      of_table[0].options.root = lists;
      of_table[0].options.labels.clear();
      of_table[0].family = "lists in " + lists;
      of_table[0].likelihood = 90;
    } else if (base_name(table.name()) == "valid.csv" || base_name(table.name()) == "test.csv") {
      continue;  // a part
    }
    for (Reading& reading : of_table) {
      reading.sees = "CheXpert, by the columns of " + std::string(base_name(table.name()));
      all.push_back(std::move(reading));
    }
  }
  return all;
}

}  // namespace

/// Labels: a file with the columns of CheXpert (`Path` and the 14 observations: 1, 0, -1 or empty); "": those of
/// train.csv, valid.csv and test.csv that exist under root, each for the part of its name. Leading folders of a path
/// that root does not hold ("CheXpert-v1.0-small/") are dropped. The folder patientNNNNN of a path is the group. See
/// ChexpertOptions for -1 and empty.
const DataFormat& chexpert_format() {
  static const DataFormat kFormat = {
      .name = "chexpert",
      .wants = "CheXpert and its lists train.csv and valid.csv",
      .task_default = "multilabel",
      .tasks = [](const DataOptions&) { return std::vector{Task::multilabel}; },
      .open = read_chexpert,
      .readings = chexpert_readings,
      .class_names = [](const DataOptions&) { return std::optional(chexpert_observations()); },
      .label_file = DataFormat::LabelFile::optional,
      .default_labels = "train.csv, valid.csv and test.csv, as far as they are there, each the part of its name",
      .table_columns = {"Path", "Frontal/Lateral", "No Finding"},
      .drops_first_folder = true,
  };
  return kFormat;
}

}  // namespace dtrain
