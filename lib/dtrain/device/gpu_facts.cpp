#include "dtrain/device/gpu_facts.hpp"

#include <array>
#include <cstdlib>

#include "dtrain/device/late_library.hpp"

namespace dtrain {
namespace {

constexpr int kNoError = 0;                 // of the driver, NVML and cuBLAS
constexpr int kMultiprocessorCount = 16;    // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr size_t kDriverVersionBytes = 80;  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE

std::string three_numbers(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

std::string multiprocessors(const std::string& library, int ordinal) {
  const LateLibrary driver(library);
  int device = 0;
  int count = 0;
  const bool told = driver.loaded() && driver.call("cuInit", 0U) == kNoError &&
                    driver.call("cuDeviceGet", &device, ordinal) == kNoError &&
                    driver.call("cuDeviceGetAttribute", &count, kMultiprocessorCount, device) == kNoError;
  return told ? std::to_string(count) : "";
}

std::string driver_version(const std::string& library) {
  const LateLibrary nvml(library);
  if (!nvml.loaded() || nvml.call("nvmlInit_v2") != kNoError) return "";
  std::array<char, kDriverVersionBytes> text{};
  const int result =
      nvml.call("nvmlSystemGetDriverVersion", text.data(), static_cast<unsigned>(kDriverVersionBytes - 1));
  nvml.call("nvmlShutdown");
  return result == kNoError ? text.data() : "";
}

std::string cudnn_version(const std::string& library) {
  const LateLibrary cudnn(library, LateLibrary::Open::if_in_use);
  if (!cudnn.loaded()) return "";
  const int version = cudnn.call("cudnnGetVersion");  // 91501: 9.15.1
  return version <= 0 ? "" : three_numbers(version / 10000, version / 100 % 100, version % 100);
}

std::string cublas_version(const std::string& library) {
  const LateLibrary cublas(library, LateLibrary::Open::if_in_use);
  if (!cublas.loaded()) return "";
  std::array<int, 3> numbers{};  // MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL are 0, 1, 2
  for (int part = 0; part < 3; ++part)
    if (cublas.call("cublasGetProperty", part, &numbers[static_cast<size_t>(part)]) != kNoError) return "";
  return three_numbers(numbers[0], numbers[1], numbers[2]);
}

}  // namespace

GpuFacts gpu_facts(int device, const GpuLibraries& libraries) {
  GpuFacts facts = {{"cublas", cublas_version(libraries.cublas)},
                    {"cudnn", cudnn_version(libraries.cudnn)},
                    {"driver", driver_version(libraries.nvml)},
                    {"multiprocessors", multiprocessors(libraries.driver, device)}};
  std::erase_if(facts, [](const auto& fact) { return fact.second.empty(); });
  return facts;
}

GpuFacts plan_settings() {
  GpuFacts settings;
  for (const char* name :
       {"CUBLASLT_WORKSPACE_SIZE", "CUBLAS_WORKSPACE_CONFIG", "CUDNN_CONV_WSCAP_DBG", "CUDNN_ERRATA_JSON_FILE",
        "DISABLE_ADDMM_CUDA_LT", "NVIDIA_TF32_OVERRIDE", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_TUNABLEOP_ENABLED", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_BLAS_PREFER_CUBLASLT",
        "TORCH_CUBLASLT_UNIFIED_WORKSPACE", "TORCH_CUDNN_USE_HEURISTIC_MODE_B", "TORCH_CUDNN_V8_API_DISABLED"})
    if (const char* value = std::getenv(name)) settings[name] = value;
  return settings;
}

std::string changed_facts(const GpuFacts& then, const GpuFacts& now) {
  std::string changed;
  for (const auto& [name, value] : now) {
    const auto before = then.find(name);
    if (before == then.end() || before->second == value) continue;
    if (!changed.empty()) changed += ", ";
    changed += name + " " + before->second + " → " + value;
  }
  return changed;
}

}  // namespace dtrain
