#include "dtrain/study/run_record.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/json.hpp"

namespace dtrain {
namespace {

constexpr int64_t kMostJson = int64_t{64} << 20;
constexpr const char* kFacts = "run.json";
constexpr const char* kSteps = "metrics.jsonl";
constexpr const char* kEpochs = "epochs.csv";
constexpr const char* kRanks = "ranks.csv";

std::string without_slashes(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

void add_fault(RunRecord& run, const std::string& file, const std::string& sentence) {
  if (!run.faults.empty() && run.faults.back().file == file)
    ++run.faults.back().more;
  else
    run.faults.push_back({file, sentence});
}

// The complete lines of a file that is appended to.
std::string whole_lines(const std::string& path, RunRecord& run) {
  std::string text = read_text(path);
  const size_t kept = text.rfind('\n') + 1;  // npos + 1 is 0
  if (kept < text.size()) {
    run.notes.push_back(path + " ends in a torn line, which is left out");
    text.resize(kept);
  }
  return text;
}

void take_facts(const nlohmann::json& json, RunRecord& run) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_string()) run.texts[key] = value.get<std::string>();
    if (value.is_number_integer()) run.counts[key] = value.get<int64_t>();
  }
  const auto text_in = [](const nlohmann::json& object, const char* key) {
    return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
  };
  if (json.contains("versions") && json["versions"].is_object())
    for (const auto& [name, value] : json["versions"].items())
      if (value.is_string()) run.versions[name] = value.get<std::string>();
  if (!json.contains("hosts") || !json["hosts"].is_array()) return;
  for (const nlohmann::json& rank : json["hosts"]) {
    ++run.hosts[text_in(rank, "host") + ", " + text_in(rank, "device")];
    run.host_of_rank.push_back(text_in(rank, "host"));
  }
}

void read_facts(const std::string& path, RunRecord& run) {
  try {
    const nlohmann::json json = parse_json(read_text(path, kMostJson), path);
    if (json.is_object()) return take_facts(json, run);
    add_fault(run, path, path + " is " + kind_of(json) + ", not the facts of a run");
  } catch (const DataError& error) {
    add_fault(run, path, error.what());
  }
}

// A step that comes twice is one that a start took again after another had taken it: the later line holds.
void read_steps(const std::string& path, RunRecord& run) {
  const std::string text = whole_lines(path, run);
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const auto event = try_parse_json(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    const std::string where = path + ", line " + std::to_string(++number);
    if (!event.is_object() || !event.contains("event")) {
      add_fault(run, path, where + ": not an event of a run; the file is damaged");
      continue;
    }
    if (event["event"] != "step") continue;
    try {
      const int64_t step = whole_number(event, "step", 1, int64_t{1} << 62, where);
      const auto figure = [&](const char* key) {
        return event.contains(key) && event[key].is_number() ? std::optional(event[key].get<double>()) : std::nullopt;
      };
      while (!run.steps.empty() && run.steps.back().step >= step) run.steps.pop_back();
      run.steps.push_back({step, figure("train_loss").value_or(std::nan("")), figure("step_s")});
    } catch (const DataError& error) {
      add_fault(run, path, error.what());
    }
  }
}

// Ascending by epoch: a row that comes again, or has no number, is not one of a curve.
NumberTable in_order(const NumberTable& table, const std::string& path, RunRecord& run) {
  const std::vector<double>& epochs = *table.column("epoch");
  if (std::is_sorted(epochs.begin(), epochs.end(), std::less_equal<>()) &&
      std::none_of(epochs.begin(), epochs.end(), [](double epoch) { return std::isnan(epoch); }))
    return table;
  std::vector<size_t> kept;
  for (size_t row = 0; row < epochs.size(); ++row) {
    if (std::isnan(epochs[row])) {
      add_fault(run, path, path + " has a row without its epoch");
      continue;
    }
    while (!kept.empty() && epochs[kept.back()] >= epochs[row]) kept.pop_back();
    kept.push_back(row);
  }
  NumberTable sorted{.columns = table.columns, .values = {}};
  for (const std::vector<double>& column : table.values) {
    std::vector<double>& values = sorted.values.emplace_back();
    for (const size_t row : kept) values.push_back(column[row]);
  }
  return sorted;
}

void read_table(const std::string& path, RunRecord& run, NumberTable& table) {
  const std::string text = whole_lines(path, run);
  try {
    if (const auto fault = read_numbers(text, path, table)) run.faults.push_back(*fault);
  } catch (const DataError& error) {
    table = {};
    add_fault(run, path, error.what());
  }
  if (table.columns.empty() || table.column("epoch") != nullptr) return;
  table = {};
  add_fault(run, path, path + " has no column 'epoch': it is not a run's");
}

void read_epochs(const std::string& path, RunRecord& run) {
  read_table(path, run, run.epochs);
  if (run.epochs.rows() > 0) run.epochs = in_order(run.epochs, path, run);
}

}  // namespace

std::string RunRecord::text(const std::string& key) const {
  const auto found = texts.find(key);
  return found == texts.end() ? "" : found->second;
}

int64_t RunRecord::count(const std::string& key) const {
  const auto found = counts.find(key);
  return found == counts.end() ? 0 : found->second;
}

int64_t RunRecord::nodes() const {
  return static_cast<int64_t>(std::set<std::string>(host_of_rank.begin(), host_of_rank.end()).size());
}

RunRecord look_at_run(const std::string& typed, const RunParts& parts) {
  RunRecord run;
  run.folder = without_slashes(typed);
  const auto read = [&](const char* name, auto reader) {
    const std::string path = run.folder + "/" + name;
    if (is_there(path)) reader(path, run);
    return is_there(path);
  };
  const bool facts = read(kFacts, read_facts);
  if (parts.steps) read(kSteps, read_steps);
  read(kEpochs, read_epochs);
  if (parts.ranks)
    read(kRanks, [](const std::string& path, RunRecord& record) { read_table(path, record, record.ranks); });
  if (!facts) run.notes.push_back(run.folder + " has no run.json: its data, versions and hosts are not known");
  run.done = is_there(run.folder + "/DONE");
  return run;
}

bool is_run_folder(const std::string& folder) {
  return is_there(folder + "/" + kFacts) || is_there(folder + "/" + kSteps) || is_there(folder + "/" + kEpochs);
}

RunRecord read_run(const std::string& typed) {
  const std::string folder = without_slashes(typed);
  FileSystem::Status status;
  const int failed = real_file_system().status(folder, true, status);
  if (failed == -ENOENT) throw MissingError(folder + " does not exist; name a run's folder, such as runs/NAME");
  if (failed < 0) throw_errno("look at", folder, -failed);
  if (!status.is_folder)
    throw DataError(folder + " is a file; name the folder of the run that it belongs to, such as runs/NAME");
  if (!is_run_folder(folder))
    throw DataError(
        folder +
        " is not a run's folder: it holds no run.json, metrics.jsonl or epochs.csv; name one, such as runs/NAME");
  RunRecord run = look_at_run(folder, {.steps = true});
  if (!run.faults.empty()) throw DataError(run.faults.front().sentence);
  return run;
}

}  // namespace dtrain
