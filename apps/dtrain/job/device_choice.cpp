#include "job/device_choice.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/dist/collectives.hpp"

namespace dtrain {
namespace {

// Every rank's view, in order of rank, and the UUIDs of the GPUs it sees.
struct Views {
  std::vector<GpuView> ranks;
  std::vector<std::vector<std::string>> uuids;
};

Views gather_views(Communicator& comm, int local_rank, const std::vector<Gpu>& gpus, const std::string& why_none) {
  nlohmann::json mine = {
      {"host", host_name()}, {"local_rank", local_rank}, {"uuids", nlohmann::json::array()}, {"why_none", why_none}};
  for (const Gpu& gpu : gpus) mine["uuids"].push_back(gpu.uuid);
  Views views;
  for (const std::string& text : all_gather_text(comm, mine.dump())) {
    const auto rank = nlohmann::json::parse(text);
    views.uuids.push_back(rank["uuids"].get<std::vector<std::string>>());
    views.ranks.push_back(
        {rank["host"], rank["local_rank"], static_cast<int>(views.uuids.back().size()), rank["why_none"]});
  }
  return views;
}

// All ranks check all choices, so that all find the same fault.
int agreed_gpu(const Views& views, int rank, bool share) {
  std::vector<int> chosen;
  std::vector<std::string> hosts;
  std::vector<std::string> uuids;
  for (size_t r = 0; r < views.ranks.size(); ++r) {
    chosen.push_back(choose_gpu(views.ranks, r, share));
    hosts.push_back(views.ranks[r].host);
    uuids.push_back(views.uuids[r][static_cast<size_t>(chosen.back())]);
  }
  if (!share) require_own_gpus(hosts, uuids);
  return chosen[static_cast<size_t>(rank)];
}

// The GPU module if every rank can load it, else null and the first reason.
GpuModule* loaded_module(Communicator& comm, std::string& why_not) {
  GpuModule* module = nullptr;
  std::string mine;
  try {
    module = &load_gpu_module();
  } catch (const MissingError& error) {
    mine = error.what();
  }
  for (const std::string& reason : all_gather_text(comm, mine))
    if (why_not.empty()) why_not = reason;
  return why_not.empty() ? module : nullptr;
}

void require_cpu_will_do(const Experiment& e, const std::string& why_no_gpu) {
  const bool has_cure = why_no_gpu.find("device: cpu") != std::string::npos;
  if (e.device == DeviceChoice::cuda)
    throw ConfigError("device is cuda, but " + why_no_gpu + (has_cure ? "" : "; device: cpu needs no GPU"));
  if (e.distributed.backend == Backend::nccl)
    throw ConfigError("distributed.backend is nccl, which connects GPUs, but " + why_no_gpu +
                      "; distributed.backend: auto uses what is available");
}

}  // namespace

ChosenDevice choose_device(const Experiment& e, Communicator& comm, int local_rank) {
  ChosenDevice chosen;
  const bool wanted = e.device != DeviceChoice::cpu;
  GpuDriver driver;
  if (wanted) driver = ask_gpu_driver();
  const std::string why_none = wanted ? no_gpu_reason(driver) : "device is cpu";
  if (!why_none.empty()) driver.gpus.clear();
  const Views views = gather_views(comm, local_rank, driver.gpus, why_none);
  const bool some = std::any_of(views.ranks.begin(), views.ranks.end(), [](const GpuView& v) { return v.gpus > 0; });
  if (!some) {
    require_cpu_will_do(e, why_none);
    if (wanted) chosen.why_cpu = why_none;
    return chosen;
  }
  const int index = agreed_gpu(views, comm.rank(), e.distributed.share_device);
  GpuModule* module = loaded_module(comm, chosen.why_cpu);
  if (module == nullptr) {
    require_cpu_will_do(e, chosen.why_cpu);
    chosen.gpu_idle = true;
    return chosen;
  }
  set_deterministic(e.deterministic);
  chosen.device = {module->use_device(index), &module->math(), module};
  const Gpu& gpu = driver.gpus[static_cast<size_t>(index)];
  chosen.name = "cuda:" + std::to_string(index) + " " + gpu.name;
  chosen.gpu_uuid = gpu.uuid;
  chosen.pci = gpu.pci;
  return chosen;
}

}  // namespace dtrain
