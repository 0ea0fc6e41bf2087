#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "commands/commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/checkpoint/weights_origin.hpp"
#include "dtrain/io/files/csv.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/json.hpp"
#include "dtrain/runlog/run_folder.hpp"
#include "dtrain/runlog/run_log.hpp"
#include "dtrain/watch/flight_records.hpp"

namespace dtrain {
namespace {

using nlohmann::ordered_json;

/// What was found: one line for each file as it is checked, errors at the end.
class Findings {
 public:
  /// `facts` completes the file's object of --json.
  void good(const std::string& path, const std::string& what, ordered_json facts = ordered_json::object()) {
    std::printf("%s: ok%s\n", printable(path).c_str(), what.empty() ? "" : printable(": " + what).c_str());
    facts["path"] = path;
    facts["ok"] = true;
    files_.push_back(std::move(facts));
  }
  void note(const std::string& sentence) {
    std::printf("note: %s\n", printable(sentence).c_str());
    notes_.push_back(sentence);
  }
  /// Runs `look` on a file and keeps its error, so that the other files are still checked. Returns true if it was good.
  bool look_at(const std::string& path, const std::function<void()>& look) {
    try {
      look();
      return true;
    } catch (const Error& error) {
      // A configuration that does not load counts here as a file with the wrong contents.
      const int code = error.code() == exit_code::kConfig ? exit_code::kBadData : error.code();
      errors_.emplace_back(code, error.what());
      std::printf("%s: %s\n", printable(path).c_str(), code == exit_code::kBadData ? "damaged" : "cannot be read");
      files_.push_back({{"path", path}, {"ok", false}, {"error", shown(error.what())}});
      return false;
    }
  }
  int end(const std::string& path, const std::string& kind, bool json) const {
    if (files_.size() > 1 && errors_.empty())
      std::printf("all %s are intact\n", count_of(static_cast<int64_t>(files_.size()), "file").c_str());
    if (json) {
      const ordered_json all = {
          {"path", path}, {"kind", kind}, {"ok", errors_.empty()}, {"files", files_}, {"notes", notes_}};
      std::printf("%s\n", printable(all.dump(-1, ' ', false, ordered_json::error_handler_t::replace)).c_str());
    }
    std::fflush(stdout);
    if (!errors_.empty()) throw merge_errors(errors_);
    return exit_code::kDone;
  }

 private:
  ordered_json files_ = ordered_json::array();
  std::vector<std::string> notes_;
  std::vector<Error> errors_;
};

/// A checkpoint, read completely: its position and the hash of its weights.
struct Checked {
  TrainingState state;
  std::string result;
};

int64_t tensor_bytes(const SafetensorsFile& file) {
  int64_t bytes = 0;
  for (const TensorEntry& entry : file.entries()) bytes += entry.bytes;
  return bytes;
}

std::string tensors_and_bytes(const SafetensorsFile& file) {
  return count_of(static_cast<int64_t>(file.entries().size()), "tensor") + ", " + with_commas(tensor_bytes(file)) +
         " bytes";
}

ordered_json facts_of(const SafetensorsFile& file) {
  return {
      {"tensors", file.entries().size()}, {"tensor_bytes", tensor_bytes(file)}, {"checksums", file.has_checksums()}};
}

Checked check_checkpoint(const std::string& path, Findings& findings) {
  const CheckpointFolder::Found found = CheckpointFolder::read(path);
  ordered_json facts = facts_of(found.file);
  facts["epoch"] = found.state.epoch;
  facts["step"] = found.state.step;
  const std::string result = result_sha256(found.file, "model.");
  facts["result_sha256"] = result;
  findings.good(path,
                tensors_and_bytes(found.file) + ", epoch " + std::to_string(found.state.epoch) + ", step " +
                    std::to_string(found.state.step),
                std::move(facts));
  return {found.state, result};
}

/// `ours`: dtrain wrote it, so it has checksums. Returns the header's metadata.
std::map<std::string, std::string> check_weights(const std::string& path, bool ours, Findings& findings) {
  const SafetensorsFile file = SafetensorsFile::read(path, ours);
  if (ours) weights_origin(file.metadata(), path);
  findings.good(path, tensors_and_bytes(file), facts_of(file));
  if (!file.has_checksums())
    findings.note(path + " has no checksums: its structure is correct, its values cannot be checked");
  return file.metadata();
}

std::string check_file(const std::string& path, Findings& findings) {
  std::string kind = "weights";
  findings.look_at(path, [&] {
    const SafetensorsFile header = SafetensorsFile::read_header(path);  // whose metadata is referred to below
    const auto& metadata = header.metadata();
    const auto format = metadata.find("format");
    if (metadata.contains("state")) {
      kind = "checkpoint";
      check_checkpoint(path, findings);
    } else {
      check_weights(path, format != metadata.end() && format->second.starts_with("dtrain-"), findings);
    }
  });
  return kind;
}

/// The complete lines of a file that is appended to; an incomplete last line, as a kill leaves it, is reported.
std::string whole_lines(const std::string& path, Findings& findings) {
  std::string text = read_text(path);
  const size_t end = text.rfind('\n');
  const size_t kept = end == std::string::npos ? 0 : end + 1;
  if (kept < text.size()) {
    findings.note(path + " ends in a torn line of " + with_commas(static_cast<int64_t>(text.size() - kept)) +
                  " bytes; the next start of the run cuts it off");
    text.resize(kept);
  }
  return text;
}

bool is_integer(const nlohmann::json& event, const char* key) {
  return event.is_object() && event.contains(key) && event[key].is_number_integer();
}

bool is_text(const nlohmann::json& event, const char* key) {
  return event.is_object() && event.contains(key) && event[key].is_string();
}

/// Where a run's metrics begin: at its start, or at a resume from another run's checkpoint.
struct Beginning {
  int64_t epoch = 0;  ///< epochs finished then
  int64_t step = 0;
};

/// From the first event; for missing or damaged files, which check_metrics() reports, a fresh start.
Beginning beginning_of(const std::string& metrics) {
  try {
    const std::vector<std::byte> start = read_file_start(metrics, 1 << 16);
    const std::string text(reinterpret_cast<const char*>(start.data()), start.size());
    const auto event = try_parse_json(text.substr(0, text.find('\n')));
    if (is_integer(event, "epoch") && is_integer(event, "step"))
      return {event["epoch"].get<int64_t>(), event["step"].get<int64_t>()};
  } catch (const Error&) {
  }
  return {};
}

/// epochs.csv has a row for every epoch from the run's beginning on, up to `last` or, in a running one, further:
/// rows are written before the checkpoint that they belong to.
void check_epochs_csv(const std::string& path, int64_t begins_after, int64_t last, bool finished, Findings& findings) {
  const std::string text = whole_lines(path, findings);
  const CsvTable table = CsvTable::parse(text, path);
  const std::vector<std::string> fixed = epoch_columns({});
  const auto first_figure = std::find(fixed.begin(), fixed.end(), "logical_ranks") + 1;
  if (table.columns().size() < fixed.size() || !std::equal(fixed.begin(), first_figure, table.columns().begin()))
    throw DataError(path + ": its header is not that of epochs.csv");
  int64_t before = begins_after;
  for (int64_t row = 0; row < table.rows(); ++row) {
    const std::string where = path + ", line " + std::to_string(table.line(row));
    for (int64_t column = 0; column < static_cast<int64_t>(table.columns().size()); ++column) {
      const std::string& field = table.at(row, column);
      char* end = nullptr;
      std::strtod(field.c_str(), &end);
      if (end != field.c_str() + field.size())
        throw DataError(where + ": '" + table.columns()[static_cast<size_t>(column)] + "' is not a number");
    }
    const int64_t epoch = std::atoll(table.at(row, 0).c_str());
    if (epoch != before + 1)
      throw DataError(where + ": epoch " + std::to_string(epoch) + " follows where epoch " +
                      std::to_string(before + 1) + " is expected; rows are missing");
    before = epoch;
  }
  if (before < last || (finished && before > last))
    throw DataError(path + " ends with epoch " + std::to_string(before) + ", but the run has finished " +
                    std::to_string(last) + (before < last ? "; rows are missing" : ""));
  findings.good(path, count_of(table.rows(), "epoch"), {{"epochs", table.rows()}});
}

/// metrics.jsonl has every step from the run's beginning on, once, at least up to `last`.
void check_metrics(const std::string& path, int64_t begins_after, int64_t last, Findings& findings) {
  const std::string text = whole_lines(path, findings);
  int64_t number = 0;
  int64_t steps = begins_after;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const auto event = try_parse_json(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    const std::string where = path + ", line " + std::to_string(++number);
    if (!is_text(event, "event") || !is_integer(event, "step"))
      throw DataError(where + ": not a JSON object with 'event' and 'step'; the file is damaged");
    const auto step = event["step"].get<int64_t>();
    if (number == 1 && event["event"] != "start" && event["event"] != "resume")
      throw DataError(where + ": the run's first event is not a start; earlier lines are missing");
    if (event["event"] != "step") continue;
    if (step != steps + 1)
      throw DataError(where + ": step " + std::to_string(step) + " follows step " + std::to_string(steps));
    steps = step;
  }
  if (steps < last)
    throw DataError(path + " ends with step " + std::to_string(steps) + ", but the run has taken " +
                    std::to_string(last) + "; lines are missing");
  findings.good(path, count_of(number, "event") + ", up to step " + std::to_string(steps), {{"events", number}});
}

bool there(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// A run folder, file by file. What does not exist yet, as in a running one, is not an error; what must exist beside a
/// checkpoint or DONE is.
class RunCheck {
 public:
  RunCheck(const std::string& path, Findings& findings) : folder_(path), findings_(findings) {}

  void run() {
    if (!findings_.look_at(folder_.path(), [&] { folder_.require_ours(); })) return;  // nothing is read through links
    checkpoints();
    require_all();
    each("best.safetensors", [&](const std::string& path) { best(path); });
    each("config.yaml", [&](const std::string& path) { config(path); });
    each("run.json", [&](const std::string& path) { run_json(path); });
    const Beginning begins = beginning_of(folder_.file("metrics.jsonl"));
    each("epochs.csv", [&](const std::string& path) {
      check_epochs_csv(path, begins.epoch, newest_.state.epoch, folder_.done() && newest_.state.step == steps_,
                       findings_);
    });
    each("metrics.jsonl",
         [&](const std::string& path) { check_metrics(path, begins.step, newest_.state.step, findings_); });
    each("DONE", [&](const std::string& path) { done(path); });
    for (const std::string& folder : {folder_.path(), folder_.checkpoints()}) leftovers(folder);
    for (const std::string& sentence : explain_flight_records(folder_.path())) findings_.note(sentence);
  }

 private:
  void each(const std::string& name, const std::function<void(const std::string&)>& look) {
    const std::string path = folder_.file(name);
    if (there(path)) findings_.look_at(path, [&] { look(path); });
  }

  // Everything that a run writes before its first checkpoint, and before DONE.
  void require_all() {
    const bool finished = folder_.done();
    if (!finished && newest_.result.empty()) return;
    for (const std::string& name : folder_.missing_of_finished(newest_.state.best_epoch > 0)) {
      const bool may_come = !finished && (name == "DONE" || name == "best.safetensors" || name == "log.txt" ||
                                          (name == "epochs.csv" && newest_.state.epoch == 0));
      const std::string path = folder_.file(name);
      if (!may_come)
        findings_.look_at(path, [&] {
          throw DataError(path + " is missing, though " +
                          (finished ? "the run is finished" : "a checkpoint was saved after it was written"));
        });
    }
    if (finished && newest_.result.empty())
      findings_.look_at(folder_.checkpoints(), [&] {
        throw DataError(folder_.checkpoints() + " holds no valid checkpoint, though the run is finished");
      });
  }

  void checkpoints() {
    const std::vector<std::string> paths = CheckpointFolder(folder_.checkpoints()).paths();
    for (const std::string& path : paths)
      findings_.look_at(path, [&] {
        const Checked checked = check_checkpoint(path, findings_);
        // A save after an epoch's last step, and one after its evaluation, have the same step.
        const auto place = [](const TrainingState& state) { return std::pair(state.step, state.epoch); };
        if (newest_.result.empty() || place(checked.state) > place(newest_.state)) newest_ = checked;
      });
    if (paths.empty()) findings_.note(folder_.path() + " holds no checkpoint yet");
  }

  // A best of a later epoch than the checkpoint's was saved just before a kill; the next start sets it aside as well.
  void best(const std::string& path) {
    const std::string epoch = check_weights(path, true, findings_)["epoch"];
    if (newest_.result.empty() || epoch == std::to_string(newest_.state.best_epoch)) return;
    const int64_t best = newest_.state.best_epoch;
    findings_.note(path + " is of epoch " + epoch + ", but the newest checkpoint knows " +
                   (best == 0 ? "of no best" : "epoch " + std::to_string(best) + " as the best") +
                   "; a start that resumes from there sets the file aside");
  }

  void config(const std::string& path) {
    ConfigSources sources;
    sources.files = {path};
    sources.environment = false;
    load_config(sources);
    findings_.good(path, "loads");
  }

  // The hash of the result is that of the checkpoint of the run's last step, recomputed here.
  void run_json(const std::string& path) {
    const auto json = try_parse_json(read_text(path, kMostJson));
    if (!json.is_object()) throw DataError(path + " is not a JSON object; the file is damaged");
    for (const char* key : {"ranks", "logical_ranks", "steps"})
      if (!json.contains(key) || !json[key].is_number_integer())
        throw DataError(path + " has no number '" + key + "'; the file is damaged");
    steps_ = json["steps"].get<int64_t>();
    if (!json.contains("result_sha256")) return findings_.good(path, "no result yet");
    if (!json["result_sha256"].is_string())
      throw DataError(path + ": 'result_sha256' is not a text; the file is damaged");
    result_ = json["result_sha256"].get<std::string>();
    if (newest_.result.empty() || newest_.state.step != json["steps"].get<int64_t>())
      return findings_.good(path, "its result cannot be recomputed: there is no valid checkpoint of step " +
                                      std::to_string(json["steps"].get<int64_t>()) + "");
    if (newest_.result != result_)
      throw DataError(path + ": result_sha256 is " + result_ + ", but the checkpoint of step " +
                      std::to_string(newest_.state.step) + " gives " + newest_.result);
    findings_.good(path, "result_sha256 is that of the checkpoint of step " + std::to_string(newest_.state.step),
                   {{"result_sha256", result_}});
  }

  void done(const std::string& path) {
    const std::string text = read_text(path, kMostJson);
    if (text.find(result_.empty() ? "\n" : "result_sha256 " + result_ + "\n") == std::string::npos || result_.empty())
      throw DataError(path + " and run.json do not name the same result");
    findings_.good(path, "names the result of run.json");
  }

  void leftovers(const std::string& folder) {
    std::vector<std::string> names;
    real_file_system().list(folder, names);
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      const std::string path = folder + "/" + name;
      if (name.ends_with(".tmp"))
        findings_.note(path + " is left over from an unfinished write; the next start removes or replaces it");
      if (name.ends_with(".aside"))
        findings_.note(path + " was set aside by a run that resumed from an older step; nothing reads it");
    }
  }

  static constexpr int64_t kMostJson = int64_t{64} << 20;
  RunFolder folder_;
  Findings& findings_;
  Checked newest_;
  std::string result_;
  int64_t steps_ = -1;  // from run.json
};

}  // namespace

int run_verify(const VerifyCommand& command) {
  FileSystem::Status status;
  const int failed = real_file_system().status(command.path, true, status);
  if (failed == -ENOENT)
    throw MissingError(command.path + " does not exist; name a run's folder, a checkpoint, weights or packed data");
  if (failed < 0) throw_errno("look at", command.path, -failed);
  if (is_packed(command.path)) return verify_packed(command);
  Findings findings;
  if (!status.is_folder) {
    const std::string kind = check_file(command.path, findings);
    return findings.end(command.path, kind, command.json);
  }
  std::string folder = command.path;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  std::vector<std::string> names;
  if (const int unlisted = real_file_system().list(folder, names); unlisted < 0) throw_errno("list", folder, -unlisted);
  if (RunFolder(folder).used()) {
    RunCheck(folder, findings).run();
    return findings.end(folder, "run", command.json);
  }
  const std::vector<std::string> paths = CheckpointFolder(folder).paths();
  if (paths.empty())
    throw DataError(folder + " is neither a run folder nor a folder of checkpoints; name one, or a checkpoint file");
  for (const std::string& path : paths) findings.look_at(path, [&] { check_checkpoint(path, findings); });
  return findings.end(folder, "checkpoints", command.json);
}

}  // namespace dtrain
