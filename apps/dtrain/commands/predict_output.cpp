#include "commands/predict_output.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/picture_input.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/json.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 40;

// Whether nobody has locked the folder, or a prediction has.
bool may_lock(const std::string& folder) {
  if (!is_there(folder + "/.lock")) return true;
  const std::string text = read_text(folder + "/.lock", 512);
  return text.empty() || RunLock::is_mark(text, RunLock::kPrediction);
}

// Empty but for what a start leaves that was killed at once.
bool is_free(const std::string& folder) {
  std::vector<std::string> names;
  if (const int failed = real_file_system().list(folder, names); failed < 0) throw_errno("list", folder, -failed);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return name == ".lock" ? may_lock(folder) : name == "predict.json.tmp" || name == "predictions.csv.part";
  });
}

// A row that row_of() has written.
struct TableRow {
  std::string path;
  bool unread = false;  // it ends in an empty field, as no other does
  size_t end = 0;       // behind it, in the text
};

// The inverse of csv_field(), of the field that begins there.
std::string first_field(const std::string& text, size_t at) {
  std::string field;
  if (text[at] != '"') return text.substr(at, text.find(',', at) - at);
  for (++at; at < text.size() && (text[at] != '"' || text[at + 1] == '"'); ++at) {
    at += text[at] == '"' ? 1 : 0;
    field += text[at];
  }
  return field.starts_with('\'') ? field.substr(1) : field;
}

// The rows behind the head.
std::vector<TableRow> table_rows(const std::string& text) {
  std::vector<TableRow> rows;
  bool quoted = false;
  for (size_t at = 0, begin = 0; at < text.size(); ++at) {
    if (text[at] == '"') quoted = !quoted;  // a doubled one changes nothing
    if (text[at] != '\n' || quoted) continue;
    if (begin > 0) rows.push_back({first_field(text, begin), text[at - 1] == ',', at + 1});
    begin = at + 1;
  }
  return rows;
}

nlohmann::json read_description(const std::string& path) {
  nlohmann::json json = parse_json(read_text(path, int64_t{16} << 20), path);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kPredictionFormat || !json.contains("made_of") ||
      !json["made_of"].is_object())
    throw DataError(path + " was not written by dtrain predict; name another --output");
  return json;
}

// A hash says no more by all its digits; a path or a list of columns may differ at its end.
std::string shortened(const std::string& value) {
  const bool hash = value.size() == 64 && value.find_first_not_of("0123456789abcdef") == std::string::npos;
  return value.substr(0, hash ? 12 : 1000);
}

}  // namespace

void PredictOutput::take() {
  const std::string& folder = parts_.folder;
  if (is_file(folder)) throw UsageError("--output '" + folder + "' is a file; name a folder that is new or empty");
  make_folders(folder);
  if (!is_there(description()) && !is_free(folder))
    throw UsageError("--output '" + folder +
                     "' is not empty and was not begun by dtrain predict; name a folder that is new or empty");
  if (is_there(description())) require_ours();
  lock_ = std::make_unique<RunLock>(folder, RunLock::this_process(), RunLock::wait_a_little, RunLock::kPrediction);
  if (!is_there(description()) || !resume()) begin();
}

void PredictOutput::begin() {
  std::error_code ignored;
  fs::remove(part(), ignored);
  fs::remove(table(), ignored);
  append_to_file(part(), parts_.head);
  standing_ = {0, static_cast<int64_t>(parts_.head.size()), 0, false};
  write_standing();
}

// Before anything in the folder is changed.
void PredictOutput::require_ours() const {
  read_description(description());
  if (!may_lock(parts_.folder))
    throw UsageError("--output '" + parts_.folder +
                     "' holds a .lock that is not of dtrain predict; name a folder that is new or empty");
}

// False where there is nothing to go on from.
bool PredictOutput::resume() {
  const nlohmann::json json = read_description(description());
  for (const auto& [name, value] : parts_.facts) {
    const auto found = json["made_of"].find(name);
    const std::string then =
        found == json["made_of"].end() || !found->is_string() ? "unknown" : found->get<std::string>();
    if (then != value)
      throw ConfigError("--output '" + parts_.folder + "' holds a prediction whose " + name + " is " + shortened(then) +
                        ", but now it is " + shortened(value) + "; name another folder");
  }
  for (const auto& [name, value] : json["made_of"].items())
    if (std::none_of(parts_.facts.begin(), parts_.facts.end(), [&](const auto& fact) { return fact.first == name; }))
      throw ConfigError("--output '" + parts_.folder + "' holds a prediction that also depends on its " + name +
                        "; name another folder");
  standing_.batches = whole_number(json, "batches", 0, parts_.batches, description());
  standing_.rows_bytes = whole_number(json, "rows_bytes", 0, kMostBytes, description());
  standing_.bad = whole_number(json, "unread", 0, kMostBytes, description());
  const std::string& rows = is_there(part()) ? part() : table();
  if (!is_there(rows) || file_bytes(rows) < standing_.rows_bytes) return false;
  if (rows == table() && standing_.batches != parts_.batches) return false;
  standing_.complete = json.value("complete", nlohmann::json()) == true && rows == table();
  std::error_code failed;
  if (!standing_.complete) fs::resize_file(rows, static_cast<uintmax_t>(standing_.rows_bytes), failed);
  if (failed) throw_errno("shorten", rows, failed.value());
  back_to_whole_batches(rows);
  return true;
}

// Back to before the first batch of which a picture is missing.
void PredictOutput::back_to_whole_batches(const std::string& rows) {
  const std::string text = read_text(rows, kMostBytes);
  const std::vector<TableRow> table = table_rows(text);
  const auto lacks = [&](const TableRow& row) {
    const auto names = row.unread ? std::vector<std::string>{} : parts_.pictures(row.path);
    return std::any_of(names.begin(), names.end(),
                       [&](const auto& name) { return !is_there(parts_.folder + "/" + name); });
  };
  const auto first = std::find_if(table.begin(), table.end(), lacks);
  if (first == table.end()) return;
  const int64_t batch = (first - table.begin()) / parts_.batch;
  const auto kept = table.begin() + batch * parts_.batch;
  standing_ = {batch, static_cast<int64_t>(kept == table.begin() ? parts_.head.size() : std::prev(kept)->end),
               std::count_if(table.begin(), kept, [](const TableRow& row) { return row.unread; }), false};
  if (rows == this->table())
    if (const int failed = real_file_system().rename(this->table(), part()); failed < 0)
      throw_errno("rename", rows, -failed);
  write_standing();
  std::error_code failed;
  fs::resize_file(part(), static_cast<uintmax_t>(standing_.rows_bytes), failed);
  if (failed) throw_errno("shorten", part(), failed.value());
}

std::vector<std::string> PredictOutput::unread(size_t most) const {
  std::vector<std::string> paths;
  for (const TableRow& row : table_rows(read_text(table(), kMostBytes)))
    if (row.unread && paths.size() < most) paths.push_back(row.path);
  return paths;
}

void PredictOutput::write_standing() const {
  nlohmann::ordered_json made_of;
  for (const auto& [name, value] : parts_.facts) made_of[name] = value;
  const nlohmann::ordered_json json = {{"format", kPredictionFormat},  {"made_of", made_of},
                                       {"batches", standing_.batches}, {"rows_bytes", standing_.rows_bytes},
                                       {"unread", standing_.bad},      {"complete", standing_.complete}};
  write_file_atomically(description(), json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void PredictOutput::add(const std::string& rows, int64_t batches, int64_t bad) {
  append_to_file(part(), rows);
  standing_.batches += batches;
  standing_.rows_bytes += static_cast<int64_t>(rows.size());
  standing_.bad += bad;
  write_standing();
}

void PredictOutput::finish() {
  check(standing_.batches == parts_.batches, "all batches are written when a prediction is finished");
  if (is_there(part()))
    if (const int failed = real_file_system().rename(part(), table()); failed < 0)
      throw_errno("rename", part(), -failed);
  standing_.complete = true;
  write_standing();
}

void PredictOutput::write_picture(const std::string& kind, const std::string& stem, const Image& picture) {
  unsettled_.write(parts_.folder + "/" + kind + "/" + stem + std::string(kMaskEnding), encode_png(picture));
}

void require_apart(const std::string& input, const std::string& output) {
  std::error_code failed;
  const std::string in = fs::weakly_canonical(input, failed).string();
  const std::string out = fs::weakly_canonical(output, failed).string();
  if (lies_in(in, out))
    throw UsageError("--output '" + output + (in == out ? "' is the input itself" : "' holds the input") +
                     "; name a folder that is new or empty");
}

}  // namespace dtrain
