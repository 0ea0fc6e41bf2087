#include "dtrain/study/report/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/csv.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/json.hpp"
#include "dtrain/metrics/options.hpp"
#include "dtrain/study/predicted_part.hpp"

namespace dtrain {
namespace {

constexpr int64_t kMostMetrics = int64_t{64} << 20;

bool is_metric_name(const std::string& name) {
  return std::any_of(all_metrics().begin(), all_metrics().end(),
                     [&](const Metric* metric) { return metric->name == name; });
}

std::optional<double> number_at(const nlohmann::json& object, const char* key) {
  return object.contains(key) && object[key].is_number() ? std::optional(object[key].get<double>()) : std::nullopt;
}

// {"value": …, "low": …, "high": …}, or null where it is undefined.
ReportedValue value_at(const nlohmann::json& metrics, const std::string& key, const std::string& shown) {
  ReportedValue value{.name = shown};
  const auto found = metrics.find(key);
  if (found == metrics.end() || !found->is_object()) return value;
  value.value = number_at(*found, "value");
  value.low = number_at(*found, "low");
  value.high = number_at(*found, "high");
  return value;
}

void take_values(const nlohmann::json& metrics, ReportedRun& run) {
  for (const Metric* metric : all_metrics())
    if (metrics.contains(metric->name)) run.values.push_back(value_at(metrics, metric->name, metric->name));
  for (ReportedValue& value : run.per_class)
    if (const std::string key = run.per_class_of + "_" + value.name; metrics.contains(key))
      value = value_at(metrics, key, value.name);
}

void count_classes(const std::string& file, ReportedRun& run) {
  if (!is_there(file)) return;
  const CsvTable table = CsvTable::read(file);
  constexpr std::string_view kLabel = "label_";
  for (size_t i = 0; i < table.columns().size(); ++i) {
    if (!table.columns()[i].starts_with(kLabel)) continue;
    ClassCount count{.name = table.columns()[i].substr(kLabel.size())};
    for (int64_t row = 0; row < table.rows(); ++row) {
      const std::optional<double> label = number_or_nan(table.at(row, static_cast<int64_t>(i)));
      if (!label || std::isnan(*label)) continue;
      ++count.known;
      if (*label > 0.5) ++count.positives;
    }
    run.counts.push_back(count);
  }
}

}  // namespace

void take_class_curves(ReportedRun& run) {
  if (run.epoch.empty()) return;
  const auto best = std::find(run.epoch.begin(), run.epoch.end(), static_cast<double>(run.result.best_epoch));
  const size_t row = static_cast<size_t>((best == run.epoch.end() ? run.epoch.end() - 1 : best) - run.epoch.begin());
  for (const Metric* metric : epoch_metrics()) {
    const std::string stem = "valid_" + metric->name + "_";
    for (const EpochColumn& column : run.metrics) {
      if (!column.name.starts_with(stem) || is_metric_name(column.name.substr(std::string_view("valid_").size())))
        continue;
      ReportedValue value{.name = column.name.substr(stem.size())};
      if (std::isfinite(column.values[row])) value.value = column.values[row];
      run.per_class.push_back(value);
    }
    if (run.per_class.empty()) continue;
    run.per_class_of = metric->name;
    return;
  }
}

void take_evaluation(ReportedRun& run, bool counted) {
  for (const char* split : {"test", "valid", "train"}) {
    const std::string file = run.folder + "/metrics_" + split + ".json";
    if (!is_there(file)) continue;
    try {
      const nlohmann::json metrics = parse_json(read_text(file, kMostMetrics), file);
      if (!metrics.is_object()) throw DataError(file + " is " + kind_of(metrics) + ", not what dtrain eval writes");
      take_values(metrics, run);
      run.split = split;
      if (counted) count_classes(predictions_file(run.folder, split), run);
    } catch (const Error& error) {
      run.notes.emplace_back(error.what());
    }
    return;
  }
}

}  // namespace dtrain
