#include "dtrain/optim/groups.hpp"

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

// The usual walk with one way back: to the last `*`, which then takes one more character.
bool matches(const std::string& pattern, const std::string& name) {
  size_t p = 0, n = 0, star = std::string::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string::npos;
}

// What parameters are called at the level of the pattern's own words: "layer4.*" and "fc.*" for "layer5.*".
static std::string names_like(const std::string& pattern, const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  std::vector<std::string> first;
  for (const std::string& name : names) {
    const std::string word = name.substr(0, name.find('.'));
    if (std::find(first.begin(), first.end(), word) == first.end()) first.push_back(word);
  }
  const std::string near = nearest_word(pattern.substr(0, pattern.find_first_of(".*?")), first);
  if (!near.empty()) first = {near};
  std::vector<std::string> shown;
  for (const std::string& name : names)
    if (shown.size() < kMost && (near.empty() || name.substr(0, name.find('.')) == near)) shown.push_back(name);
  const size_t more = names.size() - shown.size();
  return join(shown, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

static std::string without_parameters(const ParameterGroup& group, bool taken, const std::vector<std::string>& names) {
  if (taken)
    return "optimizer.groups: every parameter that '" + group.match +
           "' matches is in a group before it, and the first one counts; move it forward or leave it out";
  return "optimizer.groups: '" + group.match + "' matches no parameter of this network, which has " +
         names_like(group.match, names);
}

std::string wrong_group(const OptimizerOptions& options) {
  if (options.freeze_until.amount > 0) return "";
  for (const ParameterGroup& group : options.groups)
    if (group.freeze && (group.rate != 1 || group.weight_decay))
      return "optimizer.groups: '" + group.match +
             "' is frozen, so neither a rate nor a weight decay acts on it; optimizer.freeze_until ends that";
  return "";
}

std::vector<ParameterRule> parameter_rules(const OptimizerOptions& options, const std::vector<std::string>& names,
                                           const std::vector<int64_t>& dimensions) {
  std::vector<ParameterRule> rules(names.size(), {.weight_decay = options.weight_decay});
  std::vector<bool> grouped(names.size(), false);
  for (const ParameterGroup& group : options.groups) {
    bool taken = false, used = false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!matches(group.match, names[i])) continue;
      taken = taken || grouped[i];
      if (grouped[i]) continue;
      grouped[i] = used = true;
      rules[i] = {group.rate, group.weight_decay.value_or(options.weight_decay), group.freeze};
    }
    if (!used) throw ConfigError(without_parameters(group, taken, names));
  }
  if (std::all_of(rules.begin(), rules.end(), [](const ParameterRule& rule) { return rule.frozen; }))
    throw ConfigError("optimizer.groups freezes every parameter, so that nothing is left to train");
  if (!options.decay_norms)
    for (size_t i = 0; i < rules.size(); ++i)
      if (dimensions[i] <= 1) rules[i].weight_decay = 0;
  return rules;
}

}  // namespace dtrain
