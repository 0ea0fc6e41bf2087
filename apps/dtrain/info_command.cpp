#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "dtrain/dist/launch.hpp"

namespace dtrain {

std::string version_text() {
  return std::string("dtrain ") + DTRAIN_VERSION + " (" + DTRAIN_BUILD_TYPE + ", " + DTRAIN_COMPILER + ", LibTorch " +
         library_versions().at("libtorch") + ")";
}

int run_info(const InfoCommand& command) {
  const std::vector<int> cores = bound_cores();
  std::printf("%s\n", version_text().c_str());
  for (const auto& [name, version] : library_versions()) std::printf("  %-10s %s\n", name.c_str(), version.c_str());
  std::printf("  %-10s %s, %zu of %ld cores may be used by this process (%s), vector code %s\n", "host",
              host_name().c_str(), cores.size(), sysconf(_SC_NPROCESSORS_ONLN), core_ranges(cores).c_str(),
              at::get_cpu_capability().c_str());
  std::printf("  %-10s cpu; this build has no GPU code\n", "devices");
  std::printf(
      "Ranks of one thread fill a machine better than one rank of many: mpirun -np %zu --bind-to none dtrain --config "
      "…\n",
      cores.size());
  if (command.json) {
    nlohmann::ordered_json json = library_versions();
    json["host"] = host_name();
    json["cores"] = cores.size();
    json["vector_code"] = at::get_cpu_capability();
    json["devices"] = {"cpu"};
    std::printf("%s\n", json.dump().c_str());
  }
  return 0;
}

}  // namespace dtrain
