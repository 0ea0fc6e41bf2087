#include "dtrain/study/predicted_part.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/csv.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/json.hpp"

namespace dtrain {
namespace {

// Reads the table's fields as numbers.
class Fields {
 public:
  explicit Fields(const CsvTable& table) : table_(table) {}

  int64_t column(const std::string& name) const {
    const std::optional<int64_t> found = table_.find_column(name);
    if (!found)
      throw DataError(table_.name() + " has no column '" + name +
                      "': another program or an older dtrain wrote it; run dtrain eval for this run again");
    return *found;
  }
  // NaN for an empty field.
  double number(int64_t row, int64_t column) const {
    const std::string& field = table_.at(row, column);
    if (field.empty()) return std::nan("");
    char* end = nullptr;
    const double value = std::strtod(field.c_str(), &end);
    if (end != field.c_str() + field.size()) throw refused(row, column, "is not a number");
    return value;
  }
  int64_t count(int64_t row, int64_t column) const {
    const double value = number(row, column);
    if (!(value >= 0) || value > 9e15 || value != std::floor(value)) throw refused(row, column, "is not a count");
    return static_cast<int64_t>(value);
  }
  DataError refused(int64_t row, int64_t column, const std::string& why) const {
    return DataError(table_.name() + ", line " + std::to_string(table_.line(row)) + ": '" +
                     table_.columns()[static_cast<size_t>(column)] + "' " + why);
  }

 private:
  const CsvTable& table_;
};

// What follows `head` in the names of the columns that begin with it.
std::vector<std::string> names_after(const CsvTable& table, const std::string& head) {
  std::vector<std::string> names;
  for (const std::string& column : table.columns())
    if (column.starts_with(head)) names.push_back(column.substr(head.size()));
  return names;
}

void read_scores(const CsvTable& table, const Fields& fields, PredictedPart& part) {
  Predictions& p = part.predictions;
  for (const char* what : {"score_", "label_"}) {
    std::vector<int64_t> columns;
    for (const std::string& name : part.classes) columns.push_back(fields.column(what + name));
    for (int64_t row = 0; row < table.rows(); ++row)
      for (const int64_t column : columns) {
        const double value = fields.number(row, column);
        if (what[0] == 's') {
          if (!(value >= 0 && value <= 1)) throw fields.refused(row, column, "is not a probability");
          p.scores.push_back(value);
        } else if (std::isnan(value) || value == 0 || value == 1) {
          p.labels.push_back(static_cast<float>(value));
        } else {
          throw fields.refused(row, column, "is neither 0 nor 1");
        }
      }
  }
}

void read_pixels(const CsvTable& table, const Fields& fields, PredictedPart& part) {
  Predictions& p = part.predictions;
  p.pixels.resize(static_cast<size_t>(table.rows()) * part.classes.size());
  p.distances.resize(p.pixels.size());
  for (size_t k = 0; k < part.classes.size(); ++k) {
    const int64_t both = fields.column("both_" + part.classes[k]);
    const int64_t predicted = fields.column("predicted_" + part.classes[k]);
    const int64_t wanted = fields.column("mask_" + part.classes[k]);
    const int64_t distance = fields.column("distance_" + part.classes[k]);
    for (int64_t row = 0; row < table.rows(); ++row) {
      const size_t place = static_cast<size_t>(row) * part.classes.size() + k;
      p.pixels[place] = {fields.count(row, both), fields.count(row, predicted), fields.count(row, wanted)};
      p.distances[place] = fields.number(row, distance);
    }
  }
}

// Weights, thresholds and temperature are beside the figures, in metrics_<split>.json.
void read_fit(const std::string& path, PredictedPart& part) {
  if (!is_there(path))
    throw MissingError(path + " is missing beside " + part.file + "; dtrain eval writes both: run it again");
  const nlohmann::json json = parse_json(read_text(path, int64_t{64} << 20), path);
  if (!json.is_object()) throw DataError(path + " is " + kind_of(json) + ", not the figures of an evaluation");
  if (json.contains("samples") && json["samples"] != part.paths.size())
    throw DataError(path + " and " + part.file + " are of different evaluations; run dtrain eval for this run again");
  if (json.contains("weights_sha256") && json["weights_sha256"].is_string())
    part.weights_sha256 = json["weights_sha256"].get<std::string>();
  if (json.contains("temperature") && json["temperature"].is_number())
    part.temperature = json["temperature"].get<double>();
  if (!json.contains("thresholds") || !json["thresholds"].is_object()) return;
  for (const std::string& name : part.classes) {
    if (!json["thresholds"].contains(name) || !json["thresholds"][name].is_number())
      throw DataError(path + " has no threshold for each class; run dtrain eval for this run again");
    part.predictions.thresholds.push_back(json["thresholds"][name].get<double>());
  }
  if (json.contains("thresholds_from") && json["thresholds_from"].is_string())
    part.thresholds_from = json["thresholds_from"].get<std::string>();
}

// Place of each class of A among those of B.
std::vector<size_t> places_of(const PredictedPart& a, const PredictedPart& b) {
  std::vector<size_t> places;
  for (const std::string& name : a.classes) {
    const auto found = std::find(b.classes.begin(), b.classes.end(), name);
    if (found != b.classes.end()) places.push_back(static_cast<size_t>(found - b.classes.begin()));
  }
  if (places.size() != a.classes.size() || a.classes.size() != b.classes.size())
    throw DataError("the runs predict different classes, so no figure of both means the same: " + a.file + " has " +
                    join(a.classes, ", ") + ", " + b.file + " has " + join(b.classes, ", "));
  return places;
}

template <typename Value>
void reorder(std::vector<Value>& table, const std::vector<size_t>& places) {
  const std::vector<Value> before = table;
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = before[i / places.size() * places.size() + places[i % places.size()]];
}

// Joins what belongs together, transitively.
class Union {
 public:
  explicit Union(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  size_t root(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t i, size_t j) { parent_[std::max(root(i), root(j))] = std::min(root(i), root(j)); }

 private:
  std::vector<size_t> parent_;
};

struct Shared {
  size_t in_a;
  size_t in_b;
};

Groups groups_of(const PredictedPart& a, const PredictedPart& b, const std::vector<Shared>& samples) {
  Union together(samples.size());
  int64_t known = 0;
  std::map<int64_t, size_t> first_a;  // sample of each patient
  std::map<int64_t, size_t> first_b;
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::optional<int64_t> of_a = a.patients[samples[i].in_a];
    const std::optional<int64_t> of_b = b.patients[samples[i].in_b];
    if (of_a) together.join(i, first_a.emplace(*of_a, i).first->second);
    if (of_b) together.join(i, first_b.emplace(*of_b, i).first->second);
    known += of_a || of_b ? 1 : 0;
  }
  Groups groups;
  std::map<size_t, int64_t> numbers;
  for (size_t i = 0; i < samples.size(); ++i)
    groups.of.push_back(numbers.emplace(together.root(i), static_cast<int64_t>(numbers.size())).first->second);
  groups.count = static_cast<int64_t>(numbers.size());
  groups.noun = known == 0 ? "sample" : known == static_cast<int64_t>(samples.size()) ? "patient" : "group";
  return groups;
}

bool same_label(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void require_same_labels(const SharedSamples& shared, const PredictedPart& a, const std::vector<Shared>& samples) {
  std::set<std::string> other;
  const size_t each = shared.classes.size();
  for (size_t i = 0; i < shared.a.labels.size(); ++i)
    if (!same_label(shared.a.labels[i], shared.b.labels[i])) other.insert(a.paths[samples[i / each].in_a]);
  if (!other.empty())
    throw DataError("the labels of " + count_of(static_cast<int64_t>(other.size()), "sample") +
                    " differ between the two runs, " + *other.begin() +
                    " among them, so their figures are not of the same question");
}

// A mean distance over other pictures in A than in B would compare the pictures: one that either lacks counts in
// neither.
int64_t drop_lone_distances(Predictions& a, Predictions& b) {
  int64_t dropped = 0;
  for (size_t i = 0; i < a.distances.size(); ++i) {
    if (std::isnan(a.distances[i]) == std::isnan(b.distances[i])) continue;
    a.distances[i] = b.distances[i] = std::nan("");
    ++dropped;
  }
  return dropped;
}

// Samples whose masks have another number of pixels in the two.
int64_t other_masks(const SharedSamples& shared) {
  const size_t each = shared.classes.size();
  std::set<size_t> samples;
  for (size_t i = 0; i < shared.a.pixels.size(); ++i)
    if (shared.a.pixels[i].wanted != shared.b.pixels[i].wanted) samples.insert(i / each);
  return static_cast<int64_t>(samples.size());
}

}  // namespace

std::string predictions_file(const std::string& folder, const std::string& split) {
  return folder + "/predictions_" + split + ".csv";
}

PredictedPart read_predictions(const std::string& folder, const std::string& split, Task task) {
  PredictedPart part;
  part.file = predictions_file(folder, split);
  const CsvTable table = CsvTable::read(part.file);
  const Fields fields(table);
  part.classes = names_after(table, task == Task::segmentation ? "both_" : "score_");
  const int64_t path = fields.column("path");
  const int64_t patient = fields.column("patient");
  if (part.classes.empty())
    throw DataError(part.file + " has no scores of a " + std::string(name_of(task)) +
                    " network: run dtrain eval again");
  Predictions& p = part.predictions;
  p.task = task;
  p.outputs = part.classes.size();
  p.loss.resize(static_cast<size_t>(table.rows()));
  for (int64_t row = 0; row < table.rows(); ++row) {
    part.paths.push_back(table.at(row, path));
    part.patients.push_back(table.at(row, patient).empty() ? std::nullopt : std::optional(fields.count(row, patient)));
  }
  if (task == Task::segmentation)
    read_pixels(table, fields, part);
  else
    read_scores(table, fields, part);
  read_fit(folder + "/metrics_" + split + ".json", part);
  return part;
}

SharedSamples shared_samples(const PredictedPart& a, const PredictedPart& b) {
  const std::vector<size_t> places = places_of(a, b);
  std::map<std::string, Shared> by_path;
  constexpr size_t kNone = SIZE_MAX;
  for (size_t i = 0; i < a.paths.size(); ++i)
    if (!by_path.emplace(a.paths[i], Shared{i, kNone}).second)
      throw DataError(a.file + " has two rows for " + a.paths[i]);
  SharedSamples shared;
  for (size_t i = 0; i < b.paths.size(); ++i) {
    const auto found = by_path.find(b.paths[i]);
    if (found == by_path.end()) {
      ++shared.only_b;
    } else if (found->second.in_b != kNone) {
      throw DataError(b.file + " has two rows for " + b.paths[i]);
    } else {
      found->second.in_b = i;
    }
  }
  std::vector<Shared> samples;
  std::vector<size_t> rows_a;
  std::vector<size_t> rows_b;
  for (const auto& [path, one] : by_path) {
    if (one.in_b == kNone) {
      ++shared.only_a;
      continue;
    }
    samples.push_back(one);
    rows_a.push_back(one.in_a);
    rows_b.push_back(one.in_b);
  }
  if (samples.empty()) throw DataError(a.file + " and " + b.file + " have no sample in common");
  shared.classes = a.classes;
  shared.a = rows_of(a.predictions, rows_a);
  shared.b = rows_of(b.predictions, rows_b);
  reorder(shared.b.scores, places);
  reorder(shared.b.labels, places);
  reorder(shared.b.pixels, places);
  reorder(shared.b.distances, places);
  if (!shared.b.thresholds.empty()) reorder(shared.b.thresholds, places);
  require_same_labels(shared, a, samples);
  shared.other_masks = other_masks(shared);
  shared.no_distance = drop_lone_distances(shared.a, shared.b);
  shared.groups = groups_of(a, b, samples);
  return shared;
}

}  // namespace dtrain
