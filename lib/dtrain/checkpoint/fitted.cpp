#include "dtrain/checkpoint/fitted.hpp"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/io/files/json.hpp"
#include "dtrain/metrics/temperature.hpp"

namespace dtrain {
namespace {

[[noreturn]] void refuse(const std::string& file) {
  throw DataError(file + ": '" + kFittedKey +
                  "' in its metadata is not what dtrain eval writes; the file was changed, use another copy");
}

// The text under `key`; "" if there is none.
std::string text_of(const nlohmann::json& json, const char* key, const std::string& file) {
  const auto found = json.find(key);
  if (found == json.end()) return "";
  if (!found->is_string() || !is_printable(found->get<std::string>())) refuse(file);
  return found->get<std::string>();
}

double number_of(const nlohmann::json& json, double least, double most, const std::string& file) {
  if (!json.is_number()) refuse(file);
  const auto number = json.get<double>();
  if (!(number >= least && number <= most)) refuse(file);
  return number;
}

}  // namespace

std::string fitted_json(const Fitted& fitted) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (fitted.temperature) {
    json["temperature"] = *fitted.temperature;
    json["temperature_from"] = fitted.temperature_from;
  }
  if (!fitted.thresholds.empty()) {
    auto& list = json["thresholds"] = nlohmann::ordered_json::array();
    for (const auto& one : fitted.thresholds)
      list.push_back(one ? nlohmann::ordered_json(*one) : nlohmann::ordered_json());
    json["thresholds_from"] = fitted.thresholds_from;
  }
  return json.dump();
}

Fitted fitted_from_json(const std::string& text, size_t classes, const std::string& file) {
  const nlohmann::json json = try_parse_json(text);
  if (!json.is_object()) refuse(file);
  Fitted fitted;
  fitted.temperature_from = text_of(json, "temperature_from", file);
  fitted.thresholds_from = text_of(json, "thresholds_from", file);
  if (const auto found = json.find("temperature"); found != json.end())
    fitted.temperature = number_of(*found, kLeastTemperature, kMostTemperature, file);
  if (const auto found = json.find("thresholds"); found != json.end()) {
    if (!found->is_array() || found->size() != classes || classes == 0) refuse(file);
    for (const nlohmann::json& one : *found)
      fitted.thresholds.push_back(one.is_null() ? std::nullopt : std::optional(number_of(one, 0, 1, file)));
  }
  const bool whole = fitted.temperature_from.empty() != fitted.temperature.has_value() &&
                     fitted.thresholds_from.empty() == fitted.thresholds.empty();
  if (!whole || json.size() != (fitted.temperature ? 2U : 0U) + (fitted.thresholds.empty() ? 0U : 2U)) refuse(file);
  return fitted;
}

// Throws unless the file may be replaced by another one of its name.
static std::filesystem::perms require_replaceable(const std::string& path) {
  const std::filesystem::file_status found = std::filesystem::symlink_status(path);
  if (found.type() == std::filesystem::file_type::symlink)
    throw ConfigError(path + " is a link; name the file that it leads to");
  using std::filesystem::perms;
  const bool read_only = (found.permissions() & (perms::owner_write | perms::group_write | perms::others_write)) ==
                         perms::none;  // root may write such a file, too, but whoever made it so meant it to stay
  if (read_only || ::access(path.c_str(), W_OK) != 0) throw PermissionError(path + " is read-only");
  return found.permissions();
}

void write_fitted(const std::string& path, const SafetensorsFile& evaluated, const Fitted& fitted) {
  const auto without_fitted = [](std::map<std::string, std::string> metadata) {
    metadata.erase(kFittedKey);
    return metadata;
  };
  std::map<std::string, std::string> metadata = without_fitted(evaluated.metadata());
  if (const auto format = metadata.find("format");
      format == metadata.end() || !format->second.starts_with("dtrain-weights-"))
    throw ConfigError(path + " is not a run's best.safetensors");
  const std::filesystem::perms mode = require_replaceable(path);
  const SafetensorsFile now = SafetensorsFile::read_header(path);
  if (without_fitted(now.metadata()) != metadata)
    throw DataError(path + " was replaced by other weights during the evaluation");
  if (!fitted.empty()) metadata[kFittedKey] = fitted_json(fitted);
  std::vector<TensorBytes> tensors;
  for (const TensorEntry& entry : evaluated.entries())
    tensors.push_back({entry.name, entry.dtype, entry.shape, evaluated.bytes(entry)});
  write_safetensors(path, tensors, metadata);
  std::error_code not_ours;  // then it has the mode of a new file
  std::filesystem::permissions(path, mode, not_ours);
}

}  // namespace dtrain
