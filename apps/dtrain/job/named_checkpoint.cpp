#include "job/named_checkpoint.hpp"

#include <filesystem>

#include "dtrain/base/error.hpp"
#include "dtrain/config/overrides.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/safetensors.hpp"

namespace dtrain {

static bool is_there_as_folder(const std::filesystem::path& path) {
  std::error_code unread;
  return std::filesystem::is_directory(path, unread);
}

void require_named(const std::string& option, const std::string& path) {
  std::error_code unread;
  if (std::filesystem::status(path, unread).type() == std::filesystem::file_type::not_found)
    throw MissingError(option + ": " + path + " does not exist; " +
                       (option == "--resume" ? "write auto or never, or " : "") +
                       "name a run's folder, such as runs/NAME, or a .safetensors file in it");
}

CheckpointFolder::Found checkpoint_at(const std::string& path) {
  if (!is_there_as_folder(path)) return CheckpointFolder::read(path);
  const std::filesystem::path below = std::filesystem::path(path) / "checkpoints";
  const std::string folder =
      (is_there_as_folder(below) ? below : std::filesystem::path(path)).lexically_normal().string();
  if (auto found = CheckpointFolder(folder).newest()) return std::move(*found);
  throw MissingError(
      path +
      " holds no checkpoint: neither itself nor its checkpoints/ has a file epoch-…-step-…; name a run's folder, "
      "such as runs/NAME, or a .safetensors file");
}

NamedWeights weights_at(const std::string& path) {
  require_named("--checkpoint", path);
  if (!is_there_as_folder(path)) return {path, ""};
  const std::filesystem::path best = (std::filesystem::path(path) / "best.safetensors").lexically_normal();
  std::error_code unread;
  if (std::filesystem::exists(best, unread)) return {best.string(), ""};
  const std::string newest = checkpoint_at(path).path;
  return {newest, path + " has no best.safetensors; using its newest checkpoint: " + newest};
}

// Looked at before the whole is, whose errors would be about keys that the user did not touch.
static void require_network_kept(const std::string& weights, const ConfigSources& sources) {
  std::vector<Error> errors;
  std::map<std::string, Config::Value> own;
  for (const auto& [key, text] : keys_of_overrides(sources)) {
    if (!key_of_network(key)) continue;
    if (own.empty())
      own = load_config({.files = sources.files,
                         .environment = false,
                         .overrides = {},
                         .stored = sources.stored,
                         .stored_in = sources.stored_in})
                .values;
    const auto has = own.find(key);
    if (has != own.end() && has->second.text == text) continue;
    errors.emplace_back(exit_code::kConfig,
                        "command line: " + key + "=" + text + " is not that of " + weights +
                            (has == own.end() ? ", whose network has none" : ", " + has->second.text) +
                            "; leave it out: what weights were trained as cannot be changed");
  }
  if (!errors.empty()) throw merge_errors(errors);
}

static void find_own_configuration(const std::string& weights, ConfigSources& sources) {
  const std::filesystem::path folder = std::filesystem::absolute(weights).lexically_normal().parent_path();
  for (const auto& run : {folder, folder.parent_path()})
    if (is_file((run / "run.json").string()) && is_file((run / "config.yaml").string())) {
      sources.files.push_back((run / "config.yaml").string());
      return;
    }
  const SafetensorsFile file = SafetensorsFile::read_header(weights);
  const auto stored = file.metadata().find("config");
  if (stored == file.metadata().end() || stored->second.empty())
    throw UsageError(weights + " is not in a run folder and holds no configuration: add --config FILE");
  sources.stored = stored->second;
  sources.stored_in = weights;
}

void add_own_configuration(const std::string& path, ConfigSources& sources) {
  const std::string weights = weights_at(path).path;
  find_own_configuration(weights, sources);
  require_network_kept(weights, sources);
}

}  // namespace dtrain
