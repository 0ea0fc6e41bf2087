#include "dtrain/base/spelling.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/label_rows.hpp"

namespace dtrain {

const DataFormat& nih_cxr14_format();

const std::vector<std::string>& nih_findings() {
  static const std::vector<std::string> kFindings = {
      "Atelectasis", "Cardiomegaly", "Effusion",           "Infiltration",  "Mass",
      "Nodule",      "Pneumonia",    "Pneumothorax",       "Consolidation", "Edema",
      "Emphysema",   "Fibrosis",     "Pleural_Thickening", "Hernia"};
  return kFindings;
}

static void read_nih_cxr14(const DataOptions& options, uint64_t /*seed*/, Dataset& dataset) {
  const LabelFile file =
      match_rows(options, options.labels, pictures_beneath(options), "Image Index", "", find_base_name, dataset);
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
  bad.raise<DataError>(
      table.name() +
      " has labels that are neither among the 14 findings nor 'No Finding' alone; '|' separates several, "
      "and tables with other names are read by data.format=csv; correct these rows, or take them out");
}

static std::vector<Reading> nih_readings(const FolderLook& look) {
  std::vector<Reading> all;
  for (const CsvTable& table : look.tables)
    if (table.find_column("Image Index") && table.find_column("Finding Labels"))
      for (Reading& reading : readings_of_table(nih_cxr14_format(), table, look)) {
        reading.sees = "ChestX-ray14, by the columns of " + std::string(base_name(table.name()));
        reading.why["data.labels"] = "labels are the 14 findings of ChestX-ray14";
        all.push_back(std::move(reading));
      }
  return all;
}

/// Labels: the official CSV (columns `Image Index`, `Finding Labels`; the group is `Patient ID`, or without it the file
/// name up to its first '_'). Pictures are found by base name at any depth under root. The 14 labels have the usual
/// order; `No Finding` = all zero.
const DataFormat& nih_cxr14_format() {
  static const DataFormat kFormat = {
      .name = "nih_cxr14",
      .wants = "ChestX-ray14 and its table Data_Entry_2017_v2020.csv",
      .task_default = "multilabel",
      .tasks = [](const DataOptions&) { return std::vector{Task::multilabel}; },
      .open = read_nih_cxr14,
      .readings = nih_readings,
      .class_names = [](const DataOptions&) { return std::optional(nih_findings()); },
      .label_file = DataFormat::LabelFile::required,
      .table_columns = {"Image Index", "Finding Labels"},
  };
  return kFormat;
}

}  // namespace dtrain
