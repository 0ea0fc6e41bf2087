#pragma once
#include <memory>
#include <optional>
#include <string>

namespace dtrain {

/// Measurements of a GPU; empty if there are none.
struct GpuUse {
  std::optional<double> util_percent;    ///< mean of the samples since the last take(), 0…100
  std::optional<double> memory_peak_mb;  ///< the largest of all samples so far, 1e6 bytes
};

/// Measures how busy one GPU is, on its own thread. Each sample asks NVIDIA's management library (NVML, documented in
/// its nvml.h) for the share of its last sixth of a second to second, as the GPU has it, in which at least one kernel
/// was running, and for the memory used on the GPU by all programs. A running kernel does not necessarily fill the GPU.
/// Without the library, or if it does not know the GPU (a MIG partition), there are no figures and no thread. The
/// training thread never calls NVML: a GPU that hangs must not make it hang.
class GpuMeter {
 public:
  /// `uuid`: as the driver gives it (Gpu::uuid); "": no GPU, nothing is loaded. `period_s`: between two samples, above
  /// 0; the first one is taken at once. `library`: NVML's file name.
  explicit GpuMeter(const std::string& uuid, double period_s = 0.25, const std::string& library = "libnvidia-ml.so.1");
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  GpuUse take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null: no figures
};

}  // namespace dtrain
