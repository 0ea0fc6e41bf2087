#pragma once
#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "dtrain/device/flat_math.hpp"
#include "dtrain/device/gpu_driver.hpp"
#include "dtrain/device/gpu_module.hpp"
#include "dtrain/device/options.hpp"

namespace dtrain {

/// Where a process computes: passed by value to everything that owns tensors.
struct Device {
  c10::Device place = c10::kCPU;
  const FlatMath* math = &host_math();  ///< of this kind of device; never null
  GpuModule* module = nullptr;          ///< null on a CPU
};

/// What a rank sees before it has chosen.
struct GpuView {
  std::string host;
  int local_rank = 0;  ///< among the ranks of the host
  int gpus = 0;        ///< that this rank may use
  std::string why_none = "";
};

/// The number of the GPU for the rank `mine` of all ranks' views: its local rank's, or the one that it sees. With
/// `share` ranks take the GPUs in turn. Throws ConfigError that says what to do if a host has more ranks than GPUs, or
/// a rank sees none.
int choose_gpu(const std::vector<GpuView>& views, size_t mine, bool share);

/// Throws ConfigError naming the first two ranks that have the same GPU, by host and UUID, rank by rank.
void require_own_gpus(const std::vector<std::string>& hosts, const std::vector<std::string>& uuids);

/// Whether two ranks of one host have parts of one GPU (MIG), which share its place on the PCI bus ("" where it is not
/// known): NCCL refuses to run between them. Hosts and places rank by rank.
bool divide_a_gpu(const std::vector<std::string>& hosts, const std::vector<std::string>& pcis);

/// Why no GPU is used, one clause, "" if one can be: no module, no driver, no device, one too old for the build.
std::string no_gpu_reason(const GpuDriver& driver);

/// Sets LibTorch's switches for the promised bits. deterministic: the same
/// bits for the same work on one kind of GPU: no search for the fastest algorithm, and none that adds in the order of
/// arrival. Before any work is issued.
void set_deterministic(bool deterministic);

}  // namespace dtrain
