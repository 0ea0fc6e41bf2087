#pragma once
#include <string>

namespace dtrain {

/// The text of a configuration file, or of a pipe: `--config <(envsubst < a.yaml)`. At most one byte more than a
/// configuration may have (kYamlMaxBytes) is read: enough to see that it is too large. For a pipe it waits 3 s for a
/// writer and 60 s for the text. Throws ConfigError for a pipe that stays silent, a folder, a device or a socket,
/// otherwise like throw_errno.
std::string read_config_file(const std::string& path);

}  // namespace dtrain
