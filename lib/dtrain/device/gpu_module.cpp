#include "dtrain/device/gpu_module.hpp"

#include <dlfcn.h>

#include "dtrain/base/error.hpp"
#include "dtrain/base/module_file.hpp"

namespace dtrain {

static constexpr const char* kFile = "libdtrain_cuda.so";

std::string gpu_module_path() { return module_path(kFile); }

GpuModule& load_gpu_module() {
  if (gpu_module_path().empty())
    throw MissingError(std::string("this build has no GPU code (") + kFile +
                       " is not in lib/ of its folder); build with a CUDA toolkit and NCCL present");
  const auto open = [] {
    try {
      return load_module(kFile, DTRAIN_BUILD_STAMP);
    } catch (const MissingError& error) {
      throw MissingError(std::string(error.what()) + "; device: cpu needs no GPU");
    }
  };
  const auto* entry = static_cast<const GpuModuleEntry*>(dlsym(open(), kGpuModuleEntry));
  check(entry != nullptr && std::string(entry->build) == DTRAIN_BUILD_STAMP, "the GPU module is what its stamp says");
  return entry->module();
}

}  // namespace dtrain
