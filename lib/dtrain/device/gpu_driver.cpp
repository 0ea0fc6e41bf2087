#include "dtrain/device/gpu_driver.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "dtrain/base/host.hpp"
#include "dtrain/device/late_library.hpp"

namespace dtrain {
namespace {

// The driver's interface, as cuda.h has it: results and devices are ints, and these numbers do not change.
constexpr int kSuccess = 0;
constexpr int kComputeMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kComputeMinor = 76;
struct Uuid {
  std::array<unsigned char, 16> bytes;
};

std::string error_text(const LateLibrary& driver, int code) {
  const char* text = nullptr;
  if (driver.call("cuGetErrorString", code, &text) == kSuccess && text != nullptr) return text;
  return "error " + std::to_string(code);
}

std::string uuid_text(const Uuid& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", uuid.bytes[i]);
    text += digits.data();
  }
  return text;
}

Gpu describe(const LateLibrary& driver, int device) {
  Gpu gpu;
  std::array<char, 256> name{};
  std::array<char, 32> pci{};
  Uuid uuid{};
  size_t bytes = 0;
  if (driver.call("cuDeviceGetName", name.data(), static_cast<int>(name.size()), device) == kSuccess)
    gpu.name = name.data();
  if (driver.call("cuDeviceGetPCIBusId", pci.data(), static_cast<int>(pci.size()), device) == kSuccess)
    gpu.pci = pci.data();
  // Version 2 gives each part of a divided GPU (MIG) its own UUID.
  if (driver.call("cuDeviceGetUuid_v2", &uuid, device) == kSuccess ||
      driver.call("cuDeviceGetUuid", &uuid, device) == kSuccess)
    gpu.uuid = uuid_text(uuid);
  driver.call("cuDeviceGetAttribute", &gpu.compute_major, kComputeMajor, device);
  driver.call("cuDeviceGetAttribute", &gpu.compute_minor, kComputeMinor, device);
  if (driver.call("cuDeviceTotalMem_v2", &bytes, device) == kSuccess)
    gpu.memory_mb = static_cast<int64_t>(bytes / 1000000);
  return gpu;
}

}  // namespace

GpuDriver ask_gpu_driver(const std::string& library) {
  GpuDriver found;
  const LateLibrary driver(library);
  if (!driver.loaded()) {
    found.problem = "no NVIDIA driver (" + library + ") on this machine";
    return found;
  }
  if (const int result = driver.call("cuInit", 0U); result != kSuccess) {
    found.problem = "the NVIDIA driver does not start: " + error_text(driver, result);
    return found;
  }
  int version = 0;
  int count = 0;
  driver.call("cuDriverGetVersion", &version);
  found.version = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  driver.call("cuDeviceGetCount", &count);
  for (int i = 0; i < count; ++i) {
    int device = 0;
    if (driver.call("cuDeviceGet", &device, i) == kSuccess) found.gpus.push_back(describe(driver, device));
  }
  if (found.gpus.empty()) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    found.problem = visible == nullptr ? std::string("the NVIDIA driver shows no GPU")
                                       : "CUDA_VISIBLE_DEVICES=" + std::string(visible) + " leaves no GPU";
  }
  return found;
}

std::vector<int> cores_near(const std::string& pci, const std::string& devices) {
  std::string name = pci;  // in sysfs by lower-case letters
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string cores;
  if (!name.empty()) std::getline(std::ifstream(devices + "/" + name + "/local_cpulist"), cores);
  return read_core_ranges(cores);
}

std::vector<int> cores_to_run_on(const std::vector<int>& bound, const std::vector<int>& near) {
  std::vector<int> both;
  std::ranges::set_intersection(bound, near, std::back_inserter(both));
  return both.empty() ? bound : both;
}

}  // namespace dtrain
