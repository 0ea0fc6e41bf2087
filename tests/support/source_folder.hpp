#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace dtrain::test {

/// The folder that holds configs/, docs/ and scripts/: DTRAIN_SOURCE_DIR, which CTest and a bundle's run_tests set,
/// else the current one, for a test started by hand from the top of the sources. No path of the build is compiled in.
inline std::string source_folder() {
  const char* named = std::getenv("DTRAIN_SOURCE_DIR");
  return named != nullptr ? named : std::filesystem::current_path().string();
}

}  // namespace dtrain::test
