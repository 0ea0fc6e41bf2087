#include "dtrain/study/run_result.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/io/files/csv.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/json.hpp"

namespace dtrain {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// Columns of epochs.csv, by name.
class Epochs {
 public:
  explicit Epochs(CsvTable table) : table_(std::move(table)) {}
  int64_t count() const { return table_.rows(); }
  std::optional<double> at(int64_t row, const std::string& column) const {
    const auto found = table_.find_column(column);
    return found ? number_of(table_.at(row, *found)) : std::nullopt;
  }

 private:
  CsvTable table_;
};

void take_best(const Epochs& epochs, const Monitor& monitor, RunResult& result) {
  for (int64_t row = 0; row < epochs.count(); ++row) {
    const std::optional<double> value = epochs.at(row, monitor.column);
    if (!value) continue;
    const bool better = !result.best || (monitor.larger_is_better ? *value > *result.best : *value < *result.best);
    if (!better) continue;
    result.best = value;
    result.best_epoch = row + 1;
  }
}

void take_rates(const Epochs& epochs, RunResult& result) {
  double train_s = 0;
  double whole_s = 0;
  double samples = 0;
  for (int64_t row = 1; row < epochs.count(); ++row) {
    const double seconds = epochs.at(row, "epoch_seconds").value_or(0);
    train_s += seconds;
    whole_s += seconds + epochs.at(row, "valid_seconds").value_or(0);
    samples += epochs.at(row, "samples").value_or(0);
  }
  if (train_s > 0) result.images_per_s = samples / train_s;
  if (whole_s > 0) result.epochs_per_hour = 3600 * static_cast<double>(epochs.count() - 1) / whole_s;
}

void take_epochs(const std::string& path, const Monitor& monitor, RunResult& result) {
  if (!is_there(path)) return;
  std::string text = read_text(path, kMostBytes);
  text.resize(text.rfind('\n') + 1);  // a job may be writing the last line; npos + 1 is 0
  if (text.empty()) return;
  const Epochs epochs(CsvTable::parse(text, path));
  result.epochs = epochs.count();
  if (epochs.count() == 0) return;
  result.elapsed_s = epochs.at(epochs.count() - 1, "elapsed_s");
  take_best(epochs, monitor, result);
  take_rates(epochs, result);
}

std::string text_at(const nlohmann::json& value, const char* key) {
  const auto found = value.is_object() ? value.find(key) : value.end();
  return value.is_object() && found != value.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t count_at(const nlohmann::json& value, const char* key) {
  const auto found = value.find(key);
  return found != value.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

void take_facts(const std::string& path, RunResult& result) {
  if (!is_there(path)) return;
  const nlohmann::json facts = try_parse_json(read_text(path, kMostBytes));
  if (!facts.is_object()) return;
  result.result_sha256 = text_at(facts, "result_sha256");
  result.data_sha256 = text_at(facts, "data_sha256");
  result.split_sha256 = text_at(facts, "split_sha256");
  result.ranks = count_at(facts, "ranks");
  result.logical_ranks = count_at(facts, "logical_ranks");
  if (facts.contains("versions")) result.device = text_at(facts["versions"], "device");
  std::set<std::string> hosts;
  if (facts.contains("hosts") && facts["hosts"].is_array())
    for (const nlohmann::json& rank : facts["hosts"]) hosts.insert(text_at(rank, "host"));
  result.nodes = static_cast<int64_t>(hosts.size());
}

}  // namespace

RunResult read_result(const std::string& folder, const Monitor& monitor) {
  RunResult result;
  result.done = is_there(folder + "/DONE");
  take_epochs(folder + "/epochs.csv", monitor, result);
  take_facts(folder + "/run.json", result);
  return result;
}

std::string last_sentence(const std::string& log, int64_t from) {
  if (!is_there(log)) return "";
  const std::string text = read_text(log, int64_t{1} << 30);
  const std::vector<std::string> lines =
      split_text(std::string_view(text).substr(std::min(text.size(), static_cast<size_t>(from))), '\n');
  std::string last;
  std::string error;
  for (const std::string& line : lines) {
    if (line.starts_with("dtrain: error ")) error = line;
    if (line.find_first_not_of(" -=\r") != std::string::npos) last = std::string(trimmed(line));
  }
  const size_t colon = error.find(": ", std::string_view("dtrain: error ").size());
  return error.empty() ? last : colon == std::string::npos ? error : error.substr(colon + 2);
}

}  // namespace dtrain
