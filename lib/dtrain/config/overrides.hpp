#pragma once
#include <string>
#include <utility>
#include <vector>

#include "dtrain/config/config.hpp"

namespace dtrain {

/// Keys that the command line sets, in its order, each with what stands there ("" for a list or a group's end). Words
/// that cannot be read are left out: load_config() refuses them.
std::vector<std::pair<std::string, std::string>> keys_of_overrides(const ConfigSources& sources);

/// What a command does with a trained network.
enum class TrainedUse {
  evaluate,  ///< on a data set with labels
  predict,   ///< on pictures that --input names, or on none
};

/// Throws ConfigError listing the keys of the command line that only training reads, or of a prediction only training
/// and evaluation: without effect on `command`, such as "dtrain eval". A file may hold them: one configuration serves
/// all commands.
void require_overrides_of(TrainedUse use, const std::string& command, const ConfigSources& sources);

/// Whether a network has another shape or meaning with another value of this key: weights fit one value alone.
bool key_of_network(const std::string& key);

}  // namespace dtrain
