#pragma once
#include <string>

#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/config/config.hpp"

namespace dtrain {

/// A weights file that was named, itself or by its run.
struct NamedWeights {
  std::string path;
  std::string note;  ///< for people: why it is not the best of the run; "" = it is, or was named itself
};

/// Throws MissingError where nothing is at `path`, which was given with `option`.
void require_named(const std::string& option, const std::string& path);

/// The file that `path`, given with --checkpoint, stands for: itself; of a run folder its best.safetensors, or where it
/// has none its newest valid checkpoint. Throws MissingError where it has neither or is not there, DataError where no
/// checkpoint is valid.
NamedWeights weights_at(const std::string& path);

/// The checkpoint that `path` stands for: itself; of a run folder, or of the folder of its checkpoints, the newest
/// valid one. Throws MissingError, DataError.
CheckpointFolder::Found checkpoint_at(const std::string& path);

/// Adds the configuration of the run that the weights at `path` come from: config.yaml of the run folder in which they
/// lie, else the one that best.safetensors holds. Throws UsageError where there is neither, and as weights_at().
void add_own_configuration(const std::string& path, ConfigSources& sources);

}  // namespace dtrain
