#pragma once
#include <string>

namespace dtrain {

/// The text of a configuration file, or of a pipe: `--config <(envsubst < a.yaml)`. Of both at most one byte more than
/// a configuration may have (kYamlMaxBytes): enough to see that it is too large. A pipe is waited for, 3 s for somebody
/// who writes and 60 s for what he writes. Throws ConfigError for a pipe that stays silent, a folder, a device or a
/// socket, else like throw_errno.
std::string read_config_file(const std::string& path);

}  // namespace dtrain
