#include <algorithm>
#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/config/checks.hpp"
#include "dtrain/config/config.hpp"
#include "dtrain/config/schema.hpp"
#include "dtrain/config/sources.hpp"

namespace dtrain {

namespace {

constexpr size_t kCommentColumn = 52;

/// What `key` would be if the configuration did not set it.
std::string text_without(const Config& config, const std::string& name) {
  Experiment experiment;
  std::set<std::string> given;
  const std::vector<Key> keys = describe(experiment);
  for (const Key& key : keys) {
    const auto value = config.values.find(key.name);
    if (value == config.values.end() || key.name == name || value->second.origin == kDefaultOrigin) continue;
    read_back(key, value->second.text);
    given.insert(key.name);
  }
  fill_defaults(experiment, given);
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.name == name; });
  return key->codec.print();
}

bool differs_from_default(const Config& config, const std::string& name, const Config::Value& value) {
  if (name == "name" || name == "data.format") return true;
  if (value.origin == kDefaultOrigin) return false;
  if (name.starts_with("data.split.")) return true;  // it matters that a split is given at all
  return value.text != text_without(config, name);
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  return text;
}

// Opens the groups of `parts` that are not open yet.
std::string group_lines(const std::vector<std::string>& parts, const std::vector<std::string>& open) {
  std::string lines;
  size_t same = 0;
  while (same + 1 < parts.size() && same + 1 < open.size() && parts[same] == open[same]) ++same;
  for (size_t i = same; i + 1 < parts.size(); ++i) lines += std::string(2 * i, ' ') + parts[i] + ":\n";
  return lines;
}

}  // namespace

std::string config_yaml(const Config& config, bool minimal, bool origins) {
  std::string out;
  std::vector<std::string> open;
  Experiment any;
  for (const Key& key : describe(any)) {
    const auto value = config.values.find(key.name);
    if (value == config.values.end()) {
      if (key.name == "data.split.valid" && !minimal && !config.experiment.data.split.given)
        out += "  # split: the folders of parts under data.root, such as train/ and valid/, else " + key.codec.print() +
               " of the samples for validation\n";
      continue;
    }
    if (minimal && !differs_from_default(config, key.name, value->second)) continue;
    const std::vector<std::string> parts = split_text(key.name, '.');
    out += group_lines(parts, open);
    open = parts;
    std::string line = std::string(2 * (parts.size() - 1), ' ') + parts.back() + ": " + value->second.text;
    if (origins)
      line += std::string(line.size() < kCommentColumn ? kCommentColumn - line.size() : 2, ' ') + "# " +
              one_line(value->second.origin);
    out += line + "\n";
  }
  return out;
}

bool key_in_fingerprint(const std::string& key) {
  static const std::set<std::string> outside = [] {
    std::set<std::string> names;
    Experiment any;
    for (const Key& one : describe(any))
      if (!one.in_fingerprint) names.insert(one.name);
    return names;
  }();
  return !outside.contains(key);
}

std::vector<std::string> idle_keys(const Config& config) {
  Experiment here = config.experiment;
  std::vector<std::string> names;
  for (const Key& key : describe(here))
    if (key.idle) names.push_back(key.name);
  return names;
}

std::map<std::string, std::string> fingerprint_values(const Config& config) {
  std::map<std::string, std::string> out;
  Config here = config;
  const std::string root = config.experiment.data.root + "/";
  const auto without_root = [&](std::string& path) {
    if (root.size() > 1 && path.starts_with(root)) path.erase(0, root.size());
  };
  without_root(here.experiment.data.labels);
  for (auto& [part, path] : here.experiment.data.split.files) without_root(path);
  for (const Key& key : describe(here.experiment))
    if (key.in_fingerprint && config.values.contains(key.name)) out[key.name] = key.codec.print();
  return out;
}

}  // namespace dtrain
