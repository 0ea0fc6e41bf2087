#include "dtrain/runlog/run_folder.hpp"

#include <fmt/core.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/json.hpp"
#include "dtrain/runlog/run_lock.hpp"

namespace dtrain {

namespace fs = std::filesystem;

constexpr int64_t kMostJson = int64_t{64} << 20;
// What a run writes; nobody else may have put links or devices there under these names.
constexpr std::array kFiles = {"config.yaml",   "run.json", "log.txt",          "epochs.csv", "ranks.csv",
                               "metrics.jsonl", ".lock",    "best.safetensors", "DONE"};
constexpr std::array kFolders = {"checkpoints", "flight", "tensorboard"};
// What an evaluation writes begins so, and the part follows.
constexpr std::array kOfEval = {"predictions_", "metrics_", "curves_", "confusion_", "masks_", "cases_"};
constexpr std::array kParts = {"train", "valid", "test"};

static bool there(const std::string& path) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  if (error) throw_errno("look at", path, error.value());
  return exists;
}

// Resolves "." and "..": no other name could be made from a path that ends in them, as for the folder moved aside, and
// what ".." means depends on the links before it.
static std::string plain(const std::string& path) {
  const fs::path given(path);
  const bool climbs = std::find(given.begin(), given.end(), "..") != given.end();
  fs::path whole = climbs ? fs::weakly_canonical(given) : given.lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "a/b/" has an empty last name
  return whole.empty() || whole == "." ? fs::current_path().string() : whole.string();
}

RunFolder::RunFolder(const std::string& path) : path_(plain(path)) {}

// The type of what is at a path, without following a link; not_found if there is nothing.
static fs::file_type type_at(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::none) throw_errno("look at", path, error.value());
  return status.type();
}

static void require_type(const std::string& path, fs::file_type wanted) {
  const fs::file_type found = type_at(path);
  if (found == wanted || found == fs::file_type::not_found) return;
  const std::string what = found == fs::file_type::symlink     ? "a symbolic link, which is not followed,"
                           : found == fs::file_type::directory ? "a folder"
                           : found == fs::file_type::regular   ? "a file"
                                                               : "a pipe, a socket or a device";
  throw ConfigError(path + " is " + what + " where a run keeps a " +
                    (wanted == fs::file_type::directory ? "folder" : "file") +
                    "; move it away, or choose another folder with --run-dir or name");
}

static void require_all(const std::string& folder) {
  if (type_at(folder) != fs::file_type::directory) return;
  std::vector<std::string> names;
  if (const int failed = real_file_system().list(folder, names); failed < 0) throw_errno("list", folder, -failed);
  for (const std::string& name : names)
    if (type_at(folder + "/" + name) != fs::file_type::directory)  // folders of the user's own, which no run opens
      require_type(folder + "/" + name, fs::file_type::regular);
}

static bool is_of_eval(const std::string& name) {
  return std::any_of(kOfEval.begin(), kOfEval.end(), [&](const std::string& kind) {
    return std::any_of(kParts.begin(), kParts.end(), [&](const char* part) { return name.starts_with(kind + part); });
  });
}

// Recognises run.json by keys that every version has written, or else the lock's text, which only its owner can read.
bool RunFolder::marked() const {
  const auto is_file = [&](const char* name) { return type_at(file(name)) == fs::file_type::regular; };
  if (is_file("run.json")) {
    const auto json = try_parse_json(read_text(file("run.json"), kMostJson));
    if (json.is_object() && json.contains("fingerprint") && json.contains("logical_ranks")) return true;
  }
  if (!is_file(".lock")) return false;
  try {
    const std::vector<std::byte> start = read_file_start(file(".lock"), 64);
    return RunLock::is_mark({reinterpret_cast<const char*>(start.data()), start.size()});
  } catch (const PermissionError&) {
    return false;
  }
}

void RunFolder::require_ours() const {
  if (!there(path_)) return;
  if (!is_folder())
    throw PermissionError("the run folder " + path_ + " is a file; choose another with --run-dir, output.dir or name");
  std::vector<std::string> names;
  if (const int failed = real_file_system().list(path_, names); failed < 0) throw_errno("list", path_, -failed);
  for (const char* name : kFiles) require_type(file(name), fs::file_type::regular);
  for (const char* name : kFolders) {
    require_type(file(name), fs::file_type::directory);
    require_all(file(name));
  }
  for (const std::string& name : names)
    if (name.starts_with("log.rank-")) require_type(file(name), fs::file_type::regular);
  // These are all that a killed start leaves, and an evaluation before the first start leaves its tables.
  const auto first_steps = [](const std::string& name) {
    return name == ".lock" || name.starts_with(".writable") || is_of_eval(name);
  };
  if (std::all_of(names.begin(), names.end(), first_steps) || marked()) return;
  std::sort(names.begin(), names.end());
  throw ConfigError("the run folder " + path_ + " holds " + names.front() +
                    (names.size() > 1 ? " and " + count_of(static_cast<int64_t>(names.size()) - 1, "other") : "") +
                    ", but neither the .lock nor the run.json of a run: it is not overwritten; choose a new or empty "
                    "folder with --run-dir, output.dir or name (--resume FILE resumes from a checkpoint anywhere)");
}

static std::string user_name(uid_t user) {
  std::array<char, 4096> memory{};
  passwd entry{};
  passwd* found = nullptr;
  getpwuid_r(user, &entry, memory.data(), memory.size(), &found);
  return found == nullptr ? fmt::format("number {}", user) : found->pw_name;
}

void RunFolder::require_writable() const {
  fs::path nearest = fs::absolute(path_);
  struct stat status {};
  while (::stat(nearest.c_str(), &status) != 0 && nearest.has_relative_path()) nearest = nearest.parent_path();
  const bool folder = S_ISDIR(status.st_mode);
  if (folder && ::access(nearest.c_str(), W_OK | X_OK) == 0) return;
  const int reason = errno;
  std::string why = "'" + nearest.string() + "' is no folder";
  if (folder)
    why = reason == EROFS ? "the file system of '" + nearest.string() + "' can only be read"
                          : fmt::format("the user {} may not write in '{}', which belongs to {}",
                                        user_name(::geteuid()), nearest.string(), user_name(status.st_uid));
  throw PermissionError("the run folder " + path_ + " cannot be written: " + why +
                        "; choose another place with output.dir or --run-dir" +
                        (folder && reason != EROFS ? ", or ask for the right to write there" : ""));
}

bool RunFolder::is_folder() const {
  std::error_code error;
  return fs::is_directory(path_, error);
}

bool RunFolder::used() const { return there(file("config.yaml")) || there(file("epochs.csv")) || there(checkpoints()); }
bool RunFolder::done() const { return there(file("DONE")); }

void RunFolder::make() const {
  try {
    make_folders(path_);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(error.what()) + "; choose another place with output.dir or --run-dir");
  }
}

void RunFolder::prove_writable(FileSystem& files) const {
  const std::string probe = file(".writable");
  write_file_atomically(probe, "probe\n", files);
  if (const int failed = files.unlink(probe); failed < 0) throw_errno("remove", probe, -failed);
}

std::string RunFolder::free_name(const std::string& ending) const {
  std::string name = path_ + "." + ending;
  for (int number = 2; type_at(name) != fs::file_type::not_found; ++number)
    name = fmt::format("{}.{}.{}", path_, ending, number);
  return name;
}

std::string RunFolder::move_aside() const {
  int number = 1;
  const auto numbered = [&] { return fmt::format("{}.{}", path_, number); };
  while (type_at(numbered()) != fs::file_type::not_found) ++number;
  const std::string aside = numbered();
  std::error_code error;
  fs::rename(path_, aside, error);
  if (error) throw_errno("move aside", path_, error.value());
  return aside;
}

std::vector<std::string> RunFolder::missing_of_finished(bool has_best) const {
  std::vector<std::string> missing;
  for (const std::string name : kFiles)  // ranks.csv: a run that an older program ended has none
    if (name != ".lock" && name != "ranks.csv" && (has_best || name != "best.safetensors") && !there(file(name)))
      missing.push_back(name);
  return missing;
}

void write_run_json(const std::string& path, const RunFacts& facts, FileSystem& files) {
  nlohmann::ordered_json json;
  json["command"] = facts.command;
  for (const auto& [key, count] : facts.counts) json[key] = count;
  for (const auto& [key, text] : facts.texts) json[key] = text;
  json["versions"] = facts.versions;
  json["hosts"] = facts.ranks_table;
  for (const auto& [key, figure] : facts.figures) json[key] = figure;
  for (const auto& times : facts.rank_times) {
    nlohmann::ordered_json row;
    for (const auto& [key, value] : times)
      if (key == "rank" || key == "epoch")
        row[key] = static_cast<int64_t>(value);
      else
        row[key] = value;
    json["rank_times"].push_back(row);
  }
  write_file_atomically(path, json.dump(2) + "\n", files);
}

std::string run_json_text(const std::string& path, const std::string& key, const std::string& otherwise) {
  if (!there(path)) return otherwise;
  const auto json = try_parse_json(read_text(path, kMostJson));
  if (!json.is_object() || !json.contains(key) || !json[key].is_string()) return otherwise;
  return json[key].get<std::string>();
}

}  // namespace dtrain
