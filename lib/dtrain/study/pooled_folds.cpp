#include "dtrain/study/pooled_folds.hpp"

#include <map>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/csv.hpp"

namespace dtrain {
namespace {

template <typename Value>
void append(std::vector<Value>& all, const std::vector<Value>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

std::string row_text(std::vector<std::string> fields) {
  for (std::string& field : fields) field = csv_field(field);
  return join(fields, ",") + "\n";
}

// The fold's table, each row with its number; a header if there is none yet.
std::string rows_of_fold(const std::string& path, int64_t fold, std::vector<std::string>& columns) {
  const CsvTable table = CsvTable::read(path);
  std::string text;
  if (columns.empty()) {
    columns = table.columns();
    std::vector<std::string> header = columns;
    header.insert(header.begin(), "fold");
    text = row_text(header);
  }
  if (table.columns() != columns)
    throw DataError(path + " has other columns than the other folds of its study; remove it to have it made again");
  for (int64_t row = 0; row < table.rows(); ++row) {
    std::vector<std::string> fields = {std::to_string(fold)};
    for (size_t k = 0; k < columns.size(); ++k) fields.push_back(table.at(row, static_cast<int64_t>(k)));
    text += row_text(std::move(fields));
  }
  return text;
}

Groups pooled_groups(const std::vector<std::optional<int64_t>>& patients) {
  Groups groups;
  std::map<int64_t, int64_t> numbers;
  for (const std::optional<int64_t>& patient : patients) {
    const int64_t number = patient ? numbers.emplace(*patient, groups.count).first->second : groups.count;
    groups.count += number == groups.count ? 1 : 0;
    groups.of.push_back(number);
  }
  const auto known = static_cast<int64_t>(numbers.size());
  groups.noun = known == 0 ? "sample" : known == groups.count ? "patient" : "group";
  return groups;
}

}  // namespace

PooledFolds pool_folds(const std::vector<EvaluatedFold>& folds, Task task) {
  PooledFolds pooled;
  std::vector<std::string> columns;
  std::vector<std::optional<int64_t>> patients;
  std::set<std::string> seen;
  for (const EvaluatedFold& one : folds) {
    const PredictedPart part = read_predictions(one.folder, "valid", task);
    pooled.csv += rows_of_fold(part.file, one.fold, columns);
    for (const std::string& path : part.paths)
      if (!seen.insert(path).second)
        throw DataError(part.file + " and that of an earlier fold both have " + path +
                        ": they are not folds of one split");
    append(patients, part.patients);
    Predictions& all = pooled.predictions;
    const Predictions& its = part.predictions;
    pooled.classes = part.classes;
    all.task = task;
    all.outputs = its.outputs;
    append(all.loss, its.loss);
    append(all.scores, its.scores);
    append(all.labels, its.labels);
    append(all.pixels, its.pixels);
    append(all.distances, its.distances);
    pooled.fitted = pooled.fitted || part.temperature || !its.thresholds.empty();
  }
  pooled.groups = pooled_groups(patients);
  return pooled;
}

}  // namespace dtrain
