#pragma once
#include <map>
#include <string>

namespace dtrain {

/// Library versions for run.json, checkpoints and `dtrain info`.
std::map<std::string, std::string> library_versions();

/// Of this program: "0.1.0".
std::string program_version();

/// "dtrain 0.1.0 (Release, GNU 12.2.0, LibTorch 2.11.0)"
std::string version_text();

}  // namespace dtrain
