#include "dtrain/device/device.hpp"

#include <ATen/Context.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "dtrain/base/error.hpp"

namespace dtrain {

static constexpr int kOldestCompute = 75;  // lowest compute capability × 10 that the module's kernels are built for

int choose_gpu(const std::vector<GpuView>& views, size_t mine, bool share) {
  const GpuView& view = views[mine];
  if (view.gpus == 0)
    throw ConfigError(view.host + " shows no GPU to rank " + std::to_string(mine) + " while others have one" +
                      (view.why_none.empty() ? "" : " (" + view.why_none + ")") +
                      "; give every task a GPU (--gpus-per-node or --gres=gpu:N), or device: cpu");
  if (share) return view.local_rank % view.gpus;
  const auto ranks_here =
      std::count_if(views.begin(), views.end(), [&](const GpuView& other) { return other.host == view.host; });
  // If the launcher gives each rank one GPU, the only visible one is this rank's own. It may also have given the same
  // one to all: require_own_gpus() finds that.
  if (view.gpus == 1) return 0;
  if (view.local_rank < view.gpus) return view.local_rank;
  throw ConfigError(view.host + " has " + std::to_string(ranks_here) + " ranks but shows " + std::to_string(view.gpus) +
                    " GPUs; start one rank per GPU (mpirun --map-by ppr:" + std::to_string(view.gpus) +
                    ":node, or --ntasks-per-node=" + std::to_string(view.gpus) +
                    "); distributed.logical_ranks lets a job of more ranks run on fewer, and device: cpu uses none");
}

// The first two ranks of one host that have the same of these, which is "" where it is not known.
static std::optional<std::pair<size_t, size_t>> first_two_alike(const std::vector<std::string>& hosts,
                                                                const std::vector<std::string>& own) {
  for (size_t b = 0; b < own.size(); ++b)
    for (size_t a = 0; a < b; ++a)
      if (hosts[a] == hosts[b] && own[a] == own[b] && !own[a].empty()) return std::pair{a, b};
  return std::nullopt;
}

void require_own_gpus(const std::vector<std::string>& hosts, const std::vector<std::string>& uuids) {
  const auto two = first_two_alike(hosts, uuids);
  if (!two) return;
  throw ConfigError("ranks " + std::to_string(two->first) + " and " + std::to_string(two->second) + " on " +
                    hosts[two->first] + " have the same GPU (" + uuids[two->first] +
                    "); under mpirun request GPUs from Slurm per node (--gpus-per-node or --gres=gpu:N, not "
                    "--gpus-per-task) and start one rank per GPU; to rehearse on one GPU set "
                    "distributed.share_device: true with distributed.backend: mpi; device: cpu uses none");
}

bool divide_a_gpu(const std::vector<std::string>& hosts, const std::vector<std::string>& pcis) {
  return first_two_alike(hosts, pcis).has_value();
}

std::string no_gpu_reason(const GpuDriver& driver) {
  if (gpu_module_path().empty()) return "this build has no GPU code (no CUDA toolkit or NCCL when it was built)";
  if (!driver.problem.empty()) return driver.problem;
  if (std::atoi(driver.version.c_str()) < std::atoi(DTRAIN_CUDA_VERSION))
    return "the NVIDIA driver runs CUDA up to " + driver.version + ", and this build needs " + DTRAIN_CUDA_VERSION;
  const Gpu& gpu = driver.gpus.front();
  if (gpu.compute_major * 10 + gpu.compute_minor < kOldestCompute)
    return gpu.name + " has compute capability " + std::to_string(gpu.compute_major) + "." +
           std::to_string(gpu.compute_minor) + ", and this build needs 7.5";
  return "";
}

void set_deterministic(bool deterministic) {
  // A fixed workspace, without which results of cuBLAS may vary; it reads this when it starts.
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::Context& context = at::globalContext();
  context.setDeterministicCuDNN(deterministic);
  context.setBenchmarkCuDNN(!deterministic);
  // Where an operator has no deterministic kernel this warns and does not fail; the networks use no such operator.
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/true);
  // On by default with the above: one more pass over every new tensor, which helps only code that reads it unwritten.
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace dtrain
