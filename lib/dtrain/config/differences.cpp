#include <algorithm>
#include <set>

#include "dtrain/config/schema.hpp"
#include "dtrain/config/sources.hpp"

namespace dtrain {

using Values = std::map<std::string, std::string>;

static std::string value_or_not_set(const Values& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? "not set" : found->second;
}

ConfigDifferences config_differences(const std::vector<Key>& keys, const Values& then, const Values& now,
                                     const std::vector<std::string>& may_differ) {
  ConfigDifferences differences;
  std::set<std::string> known;
  for (const Key& key : keys) {
    known.insert(key.name);
    const bool compared =
        key.in_fingerprint && std::find(may_differ.begin(), may_differ.end(), key.name) == may_differ.end();
    if (!compared || (!then.contains(key.name) && !now.contains(key.name))) continue;
    const bool came_later = !key.in_older_runs.empty() && !then.contains(key.name);
    const std::string before = came_later ? key.in_older_runs : value_or_not_set(then, key.name);
    const std::string after = value_or_not_set(now, key.name);
    if (before != after)
      differences.changed.push_back(key.name + " was " + before + (came_later ? ", as before this key existed," : "") +
                                    " and is now " + after);
  }
  for (const auto& [name, value] : then)
    if (!known.contains(name)) differences.unknown.push_back(name);
  return differences;
}

ConfigDifferences config_differences(const Values& then, const Values& now,
                                     const std::vector<std::string>& may_differ) {
  Experiment any;
  return config_differences(describe(any), then, now, may_differ);
}

std::vector<std::string> keys_of_the_run(const Config& config) {
  Experiment any;
  std::vector<std::string> names;
  for (const Key& key : describe(any)) {
    const auto value = config.values.find(key.name);
    if (key.kept_by_runs && value != config.values.end() && value->second.origin == kDefaultOrigin)
      names.push_back(key.name);
  }
  return names;
}

void keep_values_of_run(Config& config, const Values& run, const std::vector<std::string>& anew) {
  const auto among = [](const std::vector<std::string>& names, const Key& key) {
    return std::find(names.begin(), names.end(), key.name) != names.end();
  };
  const std::vector<std::string> decided = keys_of_the_run(config);
  for (const Key& key : describe(config.experiment)) {
    const auto then = run.find(key.name);
    const auto value = config.values.find(key.name);
    if (value == config.values.end()) continue;
    const bool open = !key.settled_word.empty() && value->second.text == key.settled_word && !among(anew, key);
    if (!among(decided, key) && !(open && then != run.end())) continue;
    const std::string kept = then == run.end() ? key.in_older_runs : then->second;
    if (kept == value->second.text) continue;
    read_back(key, kept);
    value->second = {kept, "as the run began"};
  }
}

void settle_batch(Config& config, int64_t per_rank) {
  config.experiment.batch.per_rank = per_rank;
  config.values.at("batch.per_rank") = {std::to_string(per_rank), "auto, when the run began"};
}

}  // namespace dtrain
