#include "dtrain/device/gpu_meter.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "dtrain/device/late_library.hpp"

namespace dtrain {
namespace {

// NVML's interface, as nvml.h has it; these layouts do not change.
constexpr int kNvmlSuccess = 0;
using NvmlGpu = void*;
struct NvmlUtilization {
  unsigned gpu;     // percent of time in which a kernel ran
  unsigned memory;  // percent of time in which memory was read or written
};
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

}  // namespace

struct GpuMeter::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  bool leaving = false;  // said by the meter
  bool left = false;     // said by its thread
  double percent_sum = 0;
  int64_t samples = 0;
  uint64_t memory_peak = 0;  // bytes; 0: not seen

  void sample(const LateLibrary& nvml, NvmlGpu gpu) {
    NvmlUtilization busy{};
    NvmlMemory memory{};
    const bool tells_busy = nvml.call("nvmlDeviceGetUtilizationRates", gpu, &busy) == kNvmlSuccess;
    const bool tells_memory = nvml.call("nvmlDeviceGetMemoryInfo", gpu, &memory) == kNvmlSuccess;
    const std::lock_guard lock(mutex);
    if (tells_busy) {
      percent_sum += busy.gpu;
      ++samples;
    }
    if (tells_memory) memory_peak = std::max<uint64_t>(memory_peak, memory.used);
  }

  void sample_until_told(const LateLibrary& nvml, NvmlGpu gpu, double period_s) {
    std::unique_lock lock(mutex);
    while (!leaving) {
      lock.unlock();
      sample(nvml, gpu);
      lock.lock();
      changed.wait_for(lock, std::chrono::duration<double>(period_s), [&] { return leaving; });
    }
  }

  void run(const std::string& uuid, const Options& options) {
    const LateLibrary nvml(options.library);
    if (nvml.loaded() && nvml.call("nvmlInit_v2") == kNvmlSuccess) {
      NvmlGpu gpu = nullptr;
      if (nvml.call("nvmlDeviceGetHandleByUUID", uuid.c_str(), &gpu) == kNvmlSuccess)
        sample_until_told(nvml, gpu, options.period_s);
      nvml.call("nvmlShutdown");
    }
    const std::lock_guard lock(mutex);
    left = true;
    changed.notify_all();
  }
};

GpuMeter::GpuMeter(const std::string& uuid, const Options& options) : patience_s_(options.patience_s) {
  if (uuid.empty()) return;
  shared_ = std::make_shared<Shared>();
  sampler_ = std::thread([shared = shared_, uuid, options] { shared->run(uuid, options); });
}

GpuMeter::~GpuMeter() {
  if (!shared_) return;
  std::unique_lock lock(shared_->mutex);
  shared_->leaving = true;
  shared_->changed.notify_all();
  const auto patience = std::chrono::duration<double>(patience_s_);
  const bool left = shared_->changed.wait_for(lock, patience, [&] { return shared_->left; });
  lock.unlock();
  if (left)
    sampler_.join();
  else
    sampler_.detach();  // in a call that does not return
}

GpuUse GpuMeter::take() {
  GpuUse use;
  if (!shared_) return use;
  const std::lock_guard lock(shared_->mutex);
  if (shared_->samples > 0) use.util_percent = shared_->percent_sum / static_cast<double>(shared_->samples);
  if (shared_->memory_peak > 0) use.memory_peak_mb = static_cast<double>(shared_->memory_peak) / 1e6;
  shared_->percent_sum = 0;
  shared_->samples = 0;
  return use;
}

}  // namespace dtrain
