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

constexpr const char* kFormat = "dtrain-predict-1";
constexpr int64_t kMostBytes = int64_t{1} << 40;

// Empty but for what a start leaves that was killed at once.
bool is_free(const std::string& folder) {
  std::vector<std::string> names;
  if (const int failed = real_file_system().list(folder, names); failed < 0) throw_errno("list", folder, -failed);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    if (name != ".lock") return name == "predict.json.tmp" || name == "predictions.csv.part";
    const std::string text = read_text(folder + "/.lock", 512);
    return text.empty() || RunLock::is_mark(text, RunLock::kPrediction);
  });
}

}  // namespace

void PredictOutput::take() {
  const std::string& folder = parts_.folder;
  if (is_file(folder)) throw UsageError("--output '" + folder + "' is a file; name a folder that is new or empty");
  make_folders(folder);
  if (!is_there(description()) && !is_free(folder))
    throw UsageError("--output '" + folder +
                     "' is not empty and was not begun by dtrain predict; name a folder that is new or empty");
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

// False where there is nothing to go on from.
bool PredictOutput::resume() {
  const auto json = parse_json(read_text(description(), int64_t{16} << 20), description());
  if (!json.is_object() || json.value("format", nlohmann::json()) != kFormat || !json.contains("made_of") ||
      !json["made_of"].is_object())
    throw DataError(description() + " was not written by dtrain predict; name another --output");
  for (const auto& [name, value] : parts_.facts) {
    const auto found = json["made_of"].find(name);
    const std::string then =
        found == json["made_of"].end() || !found->is_string() ? "unknown" : found->get<std::string>();
    if (then != value)
      throw ConfigError("--output '" + parts_.folder + "' holds a prediction whose " + name + " is " +
                        then.substr(0, 40) + ", but now it is " + value.substr(0, 40) + "; name another folder");
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
  return true;
}

void PredictOutput::write_standing() const {
  nlohmann::ordered_json made_of;
  for (const auto& [name, value] : parts_.facts) made_of[name] = value;
  const nlohmann::ordered_json json = {{"format", kFormat},
                                       {"made_of", made_of},
                                       {"batches", standing_.batches},
                                       {"rows_bytes", standing_.rows_bytes},
                                       {"unread", standing_.bad},
                                       {"complete", standing_.complete}};
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
