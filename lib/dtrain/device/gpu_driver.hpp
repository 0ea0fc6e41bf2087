#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain {

/// One GPU that this process may use, in the order in which CUDA numbers them (CUDA_VISIBLE_DEVICES applies).
struct Gpu {
  std::string name;       ///< "NVIDIA H100 80GB HBM3"
  std::string uuid;       ///< "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", the same in every process of the host
  std::string pci;        ///< its place on the PCI bus, "0000:65:00.0"; "" where the driver does not say
  int compute_major = 0;  ///< compute capability
  int compute_minor = 0;
  int64_t memory_mb = 0;  ///< 1e6 bytes
};

/// What the NVIDIA driver reports.
struct GpuDriver {
  std::string version;    ///< newest CUDA that it runs, "13.0"; "" without a driver
  std::vector<Gpu> gpus;  ///< may be empty
  std::string problem;    ///< why `gpus` is empty, one clause; "" when it is not
};

/// Asks the driver, found at run time: a machine without one pays for a failed dlopen. Creates no CUDA context, so no
/// device memory is used. `library`: the driver's file name.
GpuDriver ask_gpu_driver(const std::string& library = "libcuda.so.1");

/// The cores nearest to a device, by its place on the PCI bus: those of its part of the memory (NUMA node), as the
/// kernel lists them under `devices`. None where that is not known.
std::vector<int> cores_near(const std::string& pci, const std::string& devices = "/sys/bus/pci/devices");

/// Of the cores that a rank is bound to those that are near its GPU; all that it is bound to where none is near.
std::vector<int> cores_to_run_on(const std::vector<int>& bound, const std::vector<int>& near);

}  // namespace dtrain
