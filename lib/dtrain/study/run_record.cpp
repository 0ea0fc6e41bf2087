#include "dtrain/study/run_record.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/csv.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/json.hpp"

namespace dtrain {
namespace {

constexpr int64_t kMostJson = int64_t{64} << 20;

std::string without_slashes(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

// The complete lines of a file that is appended to.
std::string whole_lines(const std::string& path, RunRecord& run) {
  std::string text = read_text(path);
  const size_t end = text.rfind('\n');
  const size_t kept = end == std::string::npos ? 0 : end + 1;
  if (kept < text.size()) {
    run.notes.push_back(path + " ends in a torn line, which is left out");
    text.resize(kept);
  }
  return text;
}

void read_facts(const std::string& path, RunRecord& run) {
  const nlohmann::json json = parse_json(read_text(path, kMostJson), path);
  if (!json.is_object()) throw DataError(path + " is " + kind_of(json) + ", not the facts of a run");
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
  if (json.contains("hosts") && json["hosts"].is_array())
    for (const nlohmann::json& rank : json["hosts"])
      ++run.hosts[text_in(rank, "host") + ", " + text_in(rank, "device")];
}

// A step that comes twice is one that a start took again after another had taken it: the later line holds.
void read_steps(const std::string& path, RunRecord& run) {
  const std::string text = whole_lines(path, run);
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const auto event = try_parse_json(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (!event.is_object() || !event.contains("event"))
      throw DataError(path + ", line " + std::to_string(number) + ": not an event of a run; the file is damaged");
    if (event["event"] != "step") continue;
    const int64_t step = whole_number(event, "step", 1, int64_t{1} << 62, path + ", line " + std::to_string(number));
    const auto figure = [&](const char* key) {
      return event.contains(key) && event[key].is_number() ? std::optional(event[key].get<double>()) : std::nullopt;
    };
    while (!run.steps.empty() && run.steps.back().step >= step) run.steps.pop_back();
    run.steps.push_back({step, figure("train_loss").value_or(std::nan("")), figure("step_s")});
  }
}

void read_epochs(const std::string& path, RunRecord& run) {
  const std::string text = whole_lines(path, run);
  if (text.empty()) return;
  const CsvTable table = CsvTable::parse(text, path);
  run.epochs.columns = table.columns();
  if (!table.find_column("epoch")) throw DataError(path + " has no column 'epoch': it is not a run's");
  for (int64_t row = 0; row < table.rows(); ++row) {
    auto& values = run.epochs.rows.emplace_back();
    for (int64_t column = 0; column < static_cast<int64_t>(table.columns().size()); ++column) {
      const std::string& field = table.at(row, column);
      const std::string& name = table.columns()[static_cast<size_t>(column)];
      char* end = nullptr;
      const double value = std::strtod(field.c_str(), &end);
      if (end != field.c_str() + field.size())
        throw DataError(path + ", line " + std::to_string(table.line(row)) + ": '" + name + "' is not a number");
      if (!field.empty()) values.emplace(name, value);
    }
  }
}

}  // namespace

std::optional<double> EpochTable::at(const std::map<std::string, double>& row, const std::string& column) {
  const auto found = row.find(column);
  return found == row.end() ? std::nullopt : std::optional(found->second);
}

std::string RunRecord::text(const std::string& key) const {
  const auto found = texts.find(key);
  return found == texts.end() ? "" : found->second;
}

RunRecord read_run(const std::string& typed) {
  RunRecord run;
  run.folder = without_slashes(typed);
  FileSystem::Status status;
  const int failed = real_file_system().status(run.folder, true, status);
  if (failed == -ENOENT) throw MissingError(run.folder + " does not exist; name a run's folder, such as runs/NAME");
  if (failed < 0) throw_errno("look at", run.folder, -failed);
  if (!status.is_folder)
    throw DataError(run.folder + " is a file; name the folder of the run that it belongs to, such as runs/NAME");
  const auto read = [&](const char* name, void (*reader)(const std::string&, RunRecord&)) {
    const std::string path = run.folder + "/" + name;
    if (!is_there(path)) return false;
    reader(path, run);
    return true;
  };
  const bool facts = read("run.json", read_facts);
  const bool steps = read("metrics.jsonl", read_steps);
  const bool epochs = read("epochs.csv", read_epochs);
  if (!facts && !steps && !epochs)
    throw DataError(run.folder + " is not a run's folder: it holds no run.json, metrics.jsonl or epochs.csv");
  if (!facts) run.notes.push_back(run.folder + " has no run.json: its data, versions and hosts are not known");
  run.done = is_there(run.folder + "/DONE");
  return run;
}

}  // namespace dtrain
