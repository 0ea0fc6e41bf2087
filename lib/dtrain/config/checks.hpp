#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dtrain/config/experiment.hpp"
#include "dtrain/config/yaml_tree.hpp"

namespace dtrain {

/// Sets what follows from other keys: task, channels, mean and standard deviation, scaling rule, best.*, output.dir,
/// split.given. `given`: the keys that the configuration sets; these stay.
void fill_defaults(Experiment& experiment, const std::set<std::string>& given);

/// The keys that are set but have no effect (Key::only, Key::effective_when). Arguments as for find_conflicts().
std::vector<Problem> keys_without_effect(Experiment& experiment, const std::map<std::string, Place>& given,
                                         const std::set<std::string>& bad);

/// Values that leave everything as it is without them, though their keys have an effect: a decay by the factor 1.
std::vector<Problem> values_without_effect(const Experiment& experiment, const std::map<std::string, Place>& given,
                                           const std::set<std::string>& bad);

/// Everything that is wrong between keys: keys without effect, keys missing, values that do not fit each other. A key
/// of `bad` (its own value was already refused) causes no conflicts with others. `given`: key → where it is set.
/// `nowhere`: the place of what is missing.
std::vector<Problem> find_conflicts(Experiment& experiment, const std::map<std::string, Place>& given,
                                    const std::set<std::string>& bad, const Place& nowhere);

/// Of these what data.image.channels, files, slices, mean and std do not agree on.
void check_channels(const ImageOptions& image, KeyReport& report);

}  // namespace dtrain
