#include "commands/eval_report.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands/measured_text.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/short_number.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/metrics/confusion.hpp"

namespace dtrain {
namespace {

constexpr int kNameColumns = 12;     // at least
constexpr size_t kMostPrinted = 12;  // classes of a confusion matrix

// A column of the table that has a line per class.
struct ClassColumn {
  std::string name;
  std::vector<std::string> cells;  // one per class
};

std::vector<ClassColumn> class_columns(const EvalResult& result) {
  const size_t classes = result.plan.outputs.size();
  std::vector<ClassColumn> columns;
  if (!result.fit.fitted.thresholds.empty()) {
    ClassColumn& thresholds = columns.emplace_back(ClassColumn{"threshold", {}});
    for (const double threshold : result.predictions.thresholds) thresholds.cells.push_back(short_number(threshold, 4));
  }
  // Values of classes follow those of all classes, metric by metric.
  const std::vector<NamedValue>& values = result.values;
  for (size_t i = 0; i + classes <= values.size(); ++i) {
    const Metric& metric = *values[i].metric;
    if (!metric.in_table || values[i].name == metric.name) continue;
    ClassColumn& column = columns.emplace_back(ClassColumn{metric.name, {}});
    for (size_t k = 0; k < classes; ++k) {
      const auto& value = values[i + k].measured.value;
      column.cells.push_back(value ? fixed(*value, metric.digits) : "–");
    }
    i += classes - 1;
  }
  return columns;
}

// Of two classes the one that counts as positive where samples are put in order by one probability; "" otherwise.
std::string positive_class(const EvalResult& result) {
  const std::vector<std::string>& classes = result.plan.outputs;
  return result.predictions.task == Task::multiclass && classes.size() == 2 ? classes[1] : "";
}

std::string trimmed_end(const std::string& line) { return line.substr(0, line.find_last_not_of(' ') + 1); }

void print_table(const EvalResult& result) {
  const std::vector<ClassColumn> columns = class_columns(result);
  if (columns.empty()) return;
  std::vector<std::string> names;
  for (const std::string& name : result.plan.outputs) names.push_back(printable(name));
  const int first = cell_columns(names, kNameColumns);
  std::string head = cell("by class", first);
  const auto width = [](const ClassColumn& column) { return std::max(static_cast<int>(column.name.size()), 6); };
  for (const ClassColumn& column : columns) head += "  " + cell(column.name, width(column));
  std::printf("  %s\n", trimmed_end(head).c_str());
  const std::vector<std::string> shown = cells(names, first);
  for (size_t k = 0; k < names.size(); ++k) {
    std::string line = shown[k];
    for (const ClassColumn& column : columns) line += "  " + cell(column.cells[k], width(column));
    std::printf("  %s\n", trimmed_end(line).c_str());
  }
}

void print_confusion(const EvalResult& result) {
  const size_t classes = result.plan.outputs.size();
  if (result.predictions.task != Task::multiclass || classes > kMostPrinted) return;
  const std::vector<int64_t> counts = confusion_matrix(result.predictions);
  std::vector<std::string> names;
  for (const std::string& name : result.plan.outputs) names.push_back(printable(name));
  const std::string corner = "samples of … taken for …";
  const int first = cell_columns(names, shown_columns(corner));
  const int other = std::min(16, cell_columns(names, 7));
  std::string head = cell(corner, first);
  for (const std::string& name : cells(names, other)) head += " " + name;
  std::printf("  %s\n", trimmed_end(head).c_str());
  const std::vector<std::string> rows = cells(names, first);
  for (size_t i = 0; i < classes; ++i) {
    std::string line = rows[i];
    for (size_t j = 0; j < classes; ++j) line += " " + cell(with_commas(counts[i * classes + j]), other);
    std::printf("  %s\n", trimmed_end(line).c_str());
  }
}

void add_fit(const EvalResult& result, nlohmann::ordered_json& json) {
  const Fitted& fitted = result.fit.fitted;
  if (fitted.temperature) {
    json["temperature"] = *fitted.temperature;
    json["temperature_from"] = fitted.temperature_from;
  }
  if (fitted.thresholds.empty()) return;
  auto& thresholds = json["thresholds"] = nlohmann::ordered_json::object();
  for (size_t k = 0; k < fitted.thresholds.size(); ++k)
    thresholds[result.plan.outputs[k]] = result.predictions.thresholds[k];
  json["thresholds_from"] = fitted.thresholds_from;
}

}  // namespace

std::string result_json(const EvalResult& result, bool in_one_line) {
  nlohmann::ordered_json json = {{"split", result.command.split},           {"split_sha256", result.plan.split.sha256},
                                 {"weights_sha256", result.weights_sha256}, {"samples", result.predictions.samples()},
                                 {"grouped_by", result.groups.noun},        {"groups", result.groups.count},
                                 {"loss", mean_loss(result.predictions)}};
  if (const std::string positive = positive_class(result); !positive.empty()) json["positive"] = positive;
  add_fit(result, json);
  for (const NamedValue& one : result.values) json[one.name] = measured_json(one.measured);
  return json.dump(in_one_line ? -1 : 1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void print_result(const EvalResult& result, const Written& written) {
  const Predictions& predictions = result.predictions;
  const Groups& groups = result.groups;
  const std::string samples = count_of(static_cast<int64_t>(predictions.samples()), "sample");
  std::printf("%s of %s: %s, split %s, loss %s\n", result.command.split.c_str(),
              printable(result.command.checkpoint).c_str(),
              (groups.noun == "sample" ? samples : samples + " of " + count_of(groups.count, groups.noun)).c_str(),
              result.plan.split.sha256.substr(0, 12).c_str(), short_number(mean_loss(predictions), 6).c_str());
  for (const std::string& line : fit_lines(result.fit, result.command.split)) std::printf("  %s\n", line.c_str());
  std::vector<const NamedValue*> lines;
  std::vector<std::string> names;
  for (const NamedValue& one : result.values) {
    if (one.metric->in_table && one.name != one.metric->name) continue;
    lines.push_back(&one);
    names.push_back(printable(one.name));
  }
  const std::vector<std::string> shown = cells(names, cell_columns(names, kNameColumns));
  const std::string positive = printable(positive_class(result));
  for (size_t i = 0; i < lines.size(); ++i)
    std::printf("  %s %s%s\n", shown[i].c_str(), measured_text(*lines[i], groups.noun).c_str(),
                positive.empty() || !lines[i]->metric->of_ranks ? "" : (", positive: " + positive).c_str());
  if (!positive.empty())
    std::printf(
        "  positive is the second class, %s (data.classes sets their order); a sample is called so "
        "above a probability of 0.5\n",
        positive.c_str());
  print_table(result);
  print_confusion(result);
  for (const auto& [what, path] : written) std::printf("%s: %s\n", what.c_str(), printable(path).c_str());
  if (result.command.json) std::printf("%s\n", printable(result_json(result, true)).c_str());
}

}  // namespace dtrain
