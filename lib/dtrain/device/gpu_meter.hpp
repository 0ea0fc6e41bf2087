#pragma once
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace dtrain {

/// Measurements of a GPU; empty if there are none.
struct GpuUse {
  std::optional<double> util_percent;    ///< mean of the samples since the last take(), 0…100
  std::optional<double> memory_peak_mb;  ///< the largest of all samples so far, 1e6 bytes
};

/// Measures how busy one GPU is, on its own thread. Each sample asks NVIDIA's management library (NVML, documented in
/// its nvml.h) for the share of its last sixth of a second to second, as the GPU has it, in which at least one kernel
/// was running, and for the memory used on the GPU by all programs. A running kernel does not necessarily fill the GPU.
/// Without the library, or if it does not know the GPU (a MIG partition), there are no figures. Only the meter's thread
/// calls NVML for it, and its end waits for a call that does not return no longer than `patience_s`.
class GpuMeter {
 public:
  struct Options {
    double period_s = 0.25;                     ///< between two samples, above 0; the first one is taken at once
    double patience_s = 2;                      ///< how long the end waits for a call of NVML that has not returned
    std::string library = "libnvidia-ml.so.1";  ///< NVML's file name
  };
  /// `uuid`: as the driver gives it (Gpu::uuid); "": no GPU, nothing is loaded.
  explicit GpuMeter(const std::string& uuid) : GpuMeter(uuid, {}) {}
  GpuMeter(const std::string& uuid, const Options& options);
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  GpuUse take();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive the meter; null: no GPU
  std::thread sampler_;
  double patience_s_;
};

}  // namespace dtrain
