#include "dtrain/device/gpu_module.hpp"

#include <ATen/Context.h>
#include <dlfcn.h>

#include "dtrain/base/error.hpp"
#include "dtrain/base/program.hpp"

namespace dtrain {

static constexpr const char* kFile = "libdtrain_cuda.so";

std::string gpu_module_path() { return file_of_program(kFile); }

GpuModule& load_gpu_module() {
  const std::string path = gpu_module_path();
  if (path.empty())
    throw MissingError(std::string("this build has no GPU code (") + kFile +
                       " is not beside the program); build with a CUDA toolkit and NCCL present");
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    throw MissingError(path + " cannot be loaded: " + dlerror() +
                       "; it needs the CUDA libraries that LibTorch's wheel brings along (device: cpu does without)");
  const auto* entry = static_cast<const GpuModuleEntry*>(dlsym(handle, kGpuModuleEntry));
  if (entry == nullptr || std::string(entry->build) != DTRAIN_BUILD_STAMP)
    throw MissingError(path + " belongs to another build (" + (entry == nullptr ? "no entry" : entry->build) +
                       ", this program is " + DTRAIN_BUILD_STAMP + "); build or install both together");
  GpuModule& module = entry->module();
  // LibTorch looks for its CUDA half once; had anything asked before, it would now go on without.
  check(at::globalContext().hasCUDA(), "nothing asks LibTorch for CUDA before the GPU module is loaded");
  return module;
}

}  // namespace dtrain
