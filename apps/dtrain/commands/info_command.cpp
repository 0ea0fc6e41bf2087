#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands/commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/memory.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/device/device.hpp"
#include "dtrain/dist/leftovers.hpp"
#include "line/versions.hpp"

namespace dtrain {

namespace {

// The driver, its GPUs, and whether this build can use them. The module is loaded only where it can.
nlohmann::ordered_json gpu_facts() {
  const GpuDriver driver = ask_gpu_driver();
  nlohmann::ordered_json facts = {{"driver_cuda", driver.version}, {"gpus", nlohmann::json::array()}};
  for (const Gpu& gpu : driver.gpus)
    facts["gpus"].push_back({{"name", gpu.name},
                             {"uuid", gpu.uuid},
                             {"compute", std::to_string(gpu.compute_major) + "." + std::to_string(gpu.compute_minor)},
                             {"memory_mb", gpu.memory_mb}});
  std::string reason = no_gpu_reason(driver);
  if (reason.empty()) {
    try {
      GpuModule& module = load_gpu_module();
      facts["cuda"] = module.cuda_version();
      facts["nccl"] = module.nccl().version();
    } catch (const Error& error) {
      reason = shown(error.what());
    }
  }
  facts["why_no_gpu"] = reason;
  return facts;
}

void print_gpu_facts(const nlohmann::ordered_json& facts) {
  const std::string reason = facts["why_no_gpu"];
  for (size_t i = 0; i < facts["gpus"].size(); ++i) {
    const auto& gpu = facts["gpus"][i];
    std::printf("  %-10s cuda:%zu %s, compute capability %s, %.1f GB, %s\n", i == 0 ? "devices" : "", i,
                gpu["name"].get<std::string>().c_str(), gpu["compute"].get<std::string>().c_str(),
                gpu["memory_mb"].get<double>() / 1000, gpu["uuid"].get<std::string>().c_str());
  }
  if (!reason.empty()) {
    std::printf("  %-10s cpu; no GPU is used: %s\n", facts["gpus"].empty() ? "devices" : "", printable(reason).c_str());
    return;
  }
  std::printf("  %-10s CUDA %s (the driver runs up to %s), NCCL %s\n", "gpu code",
              facts["cuda"].get<std::string>().c_str(), facts["driver_cuda"].get<std::string>().c_str(),
              facts["nccl"].get<std::string>().c_str());
}

// Only what this user may remove and no process uses, so that the line can be copied as it is.
void print_leftovers(const std::vector<Leftover>& leftovers) {
  if (leftovers.empty()) return;
  double bytes = 0;
  std::string words;
  for (const Leftover& one : leftovers) {
    bytes += static_cast<double>(one.bytes);
    words += " " + shell_word(one.path);
  }
  std::printf("  %-10s %s MB of yours, left here by a killed mpirun and used by no process; to remove: rm -r%s\n",
              "leftovers", fixed(bytes / 1e6, 1).c_str(), printable(words).c_str());
}

}  // namespace

int run_info(const InfoCommand& command) {
  const std::vector<int> cores = bound_cores();
  std::printf("%s\n", version_text().c_str());
  for (const auto& [name, version] : library_versions()) std::printf("  %-10s %s\n", name.c_str(), version.c_str());
  std::printf("  %-10s %s, %zu of %ld cores may be used by this process (%s), vector code %s\n", "host",
              host_name().c_str(), cores.size(), sysconf(_SC_NPROCESSORS_ONLN), core_ranges(cores).c_str(),
              at::get_cpu_capability().c_str());
  const MemoryBudget memory = memory_budget();
  std::printf("  %-10s %s MB available to this process, of the limit of %s MB that %s has\n", "memory",
              with_commas(memory.free_bytes / 1'000'000).c_str(), with_commas(memory.limit_bytes / 1'000'000).c_str(),
              printable(memory.bound).c_str());
  const nlohmann::ordered_json gpu = gpu_facts();
  print_gpu_facts(gpu);
  const std::vector<Leftover> leftovers = open_mpi_leftovers(leftover_places());
  print_leftovers(leftovers);
  if (gpu["why_no_gpu"].get<std::string>().empty())
    std::printf("One rank for each GPU: mpirun -np %zu --bind-to none dtrain --config …\n", gpu["gpus"].size());
  else if (cores.size() > 1)
    std::printf(
        "Several single-threaded ranks use a machine better than one rank of many threads: mpirun -np %zu --bind-to "
        "none dtrain "
        "--config …\n",
        cores.size());
  if (command.json) {
    nlohmann::ordered_json json = library_versions();
    json["host"] = host_name();
    json["cores"] = cores.size();
    json["vector_code"] = at::get_cpu_capability();
    json["memory_free_mb"] = static_cast<double>(memory.free_bytes) / 1e6;
    json["memory_limit_mb"] = static_cast<double>(memory.limit_bytes) / 1e6;
    json["memory_bound"] = memory.bound;
    json.update(gpu);
    json["leftovers"] = nlohmann::json::array();
    for (const Leftover& one : leftovers) json["leftovers"].push_back({{"path", one.path}, {"bytes", one.bytes}});
    json["devices"] = {"cpu"};
    if (gpu["why_no_gpu"].get<std::string>().empty())
      for (size_t i = 0; i < gpu["gpus"].size(); ++i) json["devices"].push_back("cuda:" + std::to_string(i));
    std::printf("%s\n", printable(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).c_str());
  }
  return 0;
}

}  // namespace dtrain
