#pragma once
#include <string>

#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/config/config.hpp"

namespace dtrain {

/// A weights file that was named directly or by its run.
struct NamedWeights {
  std::string path;
  std::string note;  ///< for people: why it is not the best of the run; "" = it is, or was named directly
};

/// Throws MissingError if nothing is at `path`, which was given with `option`.
void require_named(const std::string& option, const std::string& path);

/// The file that `path`, given with --checkpoint, stands for: itself; for a run folder its best.safetensors, or if it
/// has none its newest valid checkpoint. Throws MissingError if it has neither or does not exist, DataError if no
/// checkpoint is valid.
NamedWeights weights_at(const std::string& path);

/// The checkpoint that `path` stands for: itself; for a run folder, or its folder of checkpoints, the newest valid one.
/// Throws MissingError, DataError.
CheckpointFolder::Found checkpoint_at(const std::string& path);

/// Adds the configuration of the run that the weights at `path` come from: config.yaml of the run folder that contains
/// them, else the one in best.safetensors. Throws UsageError if there is neither, and like weights_at(); ConfigError
/// for an override that would make it the configuration of another task or network.
void add_own_configuration(const std::string& path, ConfigSources& sources);

}  // namespace dtrain
