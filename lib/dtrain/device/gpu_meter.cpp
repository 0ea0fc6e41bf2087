#include "dtrain/device/gpu_meter.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

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

struct GpuMeter::Impl {
  Impl(const std::string& library, double every_s) : nvml(library), period(every_s) {}
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      leaving = true;
    }
    changed.notify_all();
    if (sampler.joinable()) sampler.join();
    if (started) nvml.call("nvmlShutdown");
  }

  bool start(const std::string& uuid) {
    started = nvml.loaded() && nvml.call("nvmlInit_v2") == kNvmlSuccess;
    if (!started || nvml.call("nvmlDeviceGetHandleByUUID", uuid.c_str(), &gpu) != kNvmlSuccess) return false;
    sampler = std::thread([this] { run(); });
    return true;
  }

  void run() {
    std::unique_lock lock(mutex);
    while (!leaving) {
      lock.unlock();
      sample();
      lock.lock();
      changed.wait_for(lock, period, [&] { return leaving; });
    }
  }

  void sample() {
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

  LateLibrary nvml;
  std::chrono::duration<double> period;
  bool started = false;
  NvmlGpu gpu = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  bool leaving = false;
  double percent_sum = 0;
  int64_t samples = 0;
  uint64_t memory_peak = 0;  // bytes; 0: not seen
  std::thread sampler;
};

GpuMeter::GpuMeter(const std::string& uuid, double period_s, const std::string& library) {
  if (uuid.empty()) return;
  auto impl = std::make_unique<Impl>(library, period_s);
  if (impl->start(uuid)) impl_ = std::move(impl);
}

GpuMeter::~GpuMeter() = default;

GpuUse GpuMeter::take() {
  GpuUse use;
  if (!impl_) return use;
  const std::lock_guard lock(impl_->mutex);
  if (impl_->samples > 0) use.util_percent = impl_->percent_sum / static_cast<double>(impl_->samples);
  if (impl_->memory_peak > 0) use.memory_peak_mb = static_cast<double>(impl_->memory_peak) / 1e6;
  impl_->percent_sum = 0;
  impl_->samples = 0;
  return use;
}

}  // namespace dtrain
