#include "dtrain/runlog/run_folder.hpp"

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/io/file.hpp"

namespace dtrain {

namespace fs = std::filesystem;

bool RunFolder::used() const {
  return fs::exists(file("config.yaml")) || fs::exists(file("epochs.csv")) || fs::exists(checkpoints());
}
bool RunFolder::done() const { return fs::exists(file("DONE")); }
void RunFolder::remove_done() const { fs::remove(file("DONE")); }
void RunFolder::write_done(const std::string& text) const { write_file_atomically(file("DONE"), text); }

void RunFolder::prepare() const {
  make_folders(path_);
  const std::string probe = file(".writable");
  write_file_atomically(probe, "probe\n");
  fs::remove(probe);
}

std::string RunFolder::move_aside() const {
  for (int number = 1;; ++number) {
    const std::string aside = path_ + "." + std::to_string(number);
    if (fs::exists(aside)) continue;
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
  write_file_atomically(path, json.dump(2) + "\n");
}

std::string run_json_text(const std::string& path, const std::string& key, const std::string& otherwise) {
  if (!fs::exists(path)) return otherwise;
  const auto json = nlohmann::json::parse(read_text(path), nullptr, false);
  if (!json.is_object() || !json.contains(key) || !json[key].is_string()) return otherwise;
  return json[key].get<std::string>();
}

}  // namespace dtrain
