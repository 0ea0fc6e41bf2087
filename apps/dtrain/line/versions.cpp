#include "line/versions.hpp"

#include <cstdlib>

#include "dtrain/dist/mpi_session.hpp"

namespace dtrain {

// A bundle's launcher names the LibTorch that it found if that is not the build's: results depend on it.
static std::string torch_version() {
  const char* found = std::getenv("DTRAIN_TORCH_FOUND");
  return found != nullptr ? found : DTRAIN_TORCH_VERSION;
}

std::string program_version() { return DTRAIN_VERSION; }

std::map<std::string, std::string> library_versions() {
  return {{"dtrain", program_version()},
          {"build", DTRAIN_BUILD_TYPE},
          {"compiler", DTRAIN_COMPILER},
          {"libtorch", torch_version()},
          {"mpi", MpiSession::library_version()}};
}

std::string version_text() {
  return "dtrain " + program_version() + " (" + DTRAIN_BUILD_TYPE + ", " + DTRAIN_COMPILER + ", LibTorch " +
         library_versions().at("libtorch") + ")";
}

}  // namespace dtrain
