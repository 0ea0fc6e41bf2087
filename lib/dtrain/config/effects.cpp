#include <algorithm>

#include "dtrain/base/text.hpp"
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

std::vector<Problem> values_without_effect(const Experiment& e, const Given& given, const std::set<std::string>& bad) {
  std::vector<Problem> problems;
  // A checkpoint may hold what earlier versions accepted.
  const auto refuse = [&](const std::string& key, bool idle, const std::string& sentence) {
    const auto place = given.find(key);
    if (idle && place != given.end() && !place->second.source->of_a_run && !bad.contains(key))
      problems.push_back({place->second, sentence});
  };
  // A trial that shortens a configuration's run does not have to change its schedule.
  const auto of_this_length = [&](const std::string& key) {
    const auto place = given.find(key), epochs = given.find("epochs");
    if (place == given.end() || bad.contains("epochs")) return false;
    const std::string& origin = place->second.source->origin;
    return epochs == given.end() || epochs->second.source->origin == origin || origin == "command line";
  };
  const std::string constant = " or set schedule.decay=null for a constant rate";
  const DecayOptions& d = e.schedule.decay;
  const bool falls_by_factor =
      d.name == DecayName::step || d.name == DecayName::multistep || d.name == DecayName::plateau;
  const bool falls_to_final =
      d.name == DecayName::cosine || d.name == DecayName::cosine_restarts || d.name == DecayName::poly;
  const bool sound = !bad.contains("schedule.decay.name");
  refuse("schedule.decay.factor", sound && falls_by_factor && d.factor == 1,
         "schedule.decay.factor 1 leaves the rate as it is; give one below 1," + constant);
  refuse("schedule.decay.final", sound && falls_to_final && d.final == 1,
         "schedule.decay.final 1 leaves the rate as it is; give a share below 1," + constant);
  refuse("schedule.decay.patience",
         sound && d.name == DecayName::plateau && d.patience >= e.epochs && d.patience != DecayOptions().patience &&
             of_this_length("schedule.decay.patience"),
         "schedule.decay.patience is " + count_of(d.patience, "epoch") + ", but the run has " +
             count_of(e.epochs, "epoch") + ": the rate would never fall; lower it, raise epochs," + constant);
  const Duration& warmup = e.schedule.warmup;
  refuse("schedule.warmup",
         sound && d.name != DecayName::constant && warmup.unit == Duration::Unit::epochs &&
             warmup.amount == static_cast<double>(e.epochs) && of_this_length("schedule.warmup"),
         "schedule.warmup lasts " + warmup.text() +
             ", the whole run, so schedule.decay never begins; shorten it, raise "
             "epochs," +
             constant);
  const std::vector<ParameterGroup>& groups = e.optimizer.groups;
  const bool idle = !groups.empty() && !groups.back().freeze && groups.back().rate == 1 &&
                    groups.back().weight_decay.value_or(e.optimizer.weight_decay) == e.optimizer.weight_decay;
  refuse("optimizer.groups", idle,
         "optimizer.groups: '" + (groups.empty() ? "" : groups.back().match) +
             "' trains like all the rest; give it another rate or weight_decay, freeze it, or leave it out");
  return problems;
}

}  // namespace dtrain
