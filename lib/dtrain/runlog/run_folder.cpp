#include "dtrain/runlog/run_folder.hpp"

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/io/file.hpp"

namespace dtrain {

namespace fs = std::filesystem;

static bool there(const std::string& path) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  if (error) throw_errno("look at", path, error.value());
  return exists;
}

static void remove_file(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw_errno("remove", path, error.value());
}

void RunFolder::require_folder() const {
  if (there(path_) && !is_folder())
    throw PermissionError("the run folder " + path_ + " is a file; choose another with --run-dir, output.dir or name");
}

bool RunFolder::is_folder() const {
  std::error_code error;
  return fs::is_directory(path_, error);
}

bool RunFolder::used() const { return there(file("config.yaml")) || there(file("epochs.csv")) || there(checkpoints()); }
bool RunFolder::done() const { return there(file("DONE")); }
void RunFolder::remove_done() const { remove_file(file("DONE")); }
void RunFolder::write_done(const std::string& text) const { write_file_atomically(file("DONE"), text); }

void RunFolder::prepare() const {
  make_folders(path_);
  const std::string probe = file(".writable");
  write_file_atomically(probe, "probe\n");
  remove_file(probe);
}

std::string RunFolder::move_aside() const {
  for (int number = 1;; ++number) {
    const std::string aside = path_ + "." + std::to_string(number);
    if (there(aside)) continue;
    std::error_code error;
    fs::rename(path_, aside, error);
    if (error) throw_errno("move aside", path_, error.value());
    return aside;
  }
}

void write_run_json(const std::string& path, const RunFacts& facts) {
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
  write_file_atomically(path, json.dump(2) + "\n");
}

std::string run_json_text(const std::string& path, const std::string& key, const std::string& otherwise) {
  if (!there(path)) return otherwise;
  const auto json = nlohmann::json::parse(read_text(path), nullptr, false);
  if (!json.is_object() || !json.contains(key) || !json[key].is_string()) return otherwise;
  return json[key].get<std::string>();
}

}  // namespace dtrain
