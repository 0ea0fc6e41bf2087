#include <algorithm>

#include "dtrain/config/checks.hpp"
#include "dtrain/config/schema.hpp"

namespace dtrain {

namespace {

using Given = std::map<std::string, Place>;

// For the configuration that a run has stored: whatever makes the key idle is in it too, or nowhere.
bool was_accepted_before(const Key& key, const Given& given) {
  const auto stored = [&](const std::string& name) {
    const auto place = given.find(name);
    return place == given.end() || place->second.source->of_a_run;
  };
  return stored(key.name) && std::all_of(key.idle_selectors.begin(), key.idle_selectors.end(), stored);
}

Problem without_effect(const Key& key, const Place& place, std::string when) {
  std::erase(when, '`');
  return {place, key.name + " has no effect here: only when " + when};
}

}  // namespace

std::vector<Problem> keys_without_effect(Experiment& experiment, const Given& given, const std::set<std::string>& bad) {
  const auto sound = [&](const std::vector<std::string>& keys) {
    return std::none_of(keys.begin(), keys.end(), [&](const std::string& key) { return bad.contains(key); });
  };
  Experiment untouched;
  const std::vector<Key> defaults = describe(untouched);
  const std::vector<Key> keys = describe(experiment);
  std::vector<Problem> problems;
  for (size_t i = 0; i < keys.size(); ++i) {
    const Key& key = keys[i];
    const auto place = given.find(key.name);
    if (place == given.end()) continue;
    if (!key.has_effect) {
      // batch.per_rank beside batch.global is reported as a conflict of the two.
      if (sound(key.selectors) && key.name != "batch.per_rank")
        problems.push_back(without_effect(key, place->second, key.only_when));
    } else if (key.idle && sound({key.name}) && sound(key.idle_selectors) && !was_accepted_before(key, given) &&
               key.codec.print() != defaults[i].codec.print()) {
      problems.push_back(without_effect(key, place->second, key.idle_unless));
    }
  }
  return problems;
}

}  // namespace dtrain
