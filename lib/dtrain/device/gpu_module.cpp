#include "dtrain/device/gpu_module.hpp"

#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <typeinfo>

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
  GpuModule& module = entry->module();
  // LibTorch looks for its CUDA part only once; if anything had asked before, it would now run without it. Whether
  // there is a GPU is another question, which the driver answers.
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  check(typeid(hooks) != typeid(at::CUDAHooksInterface),
        "nothing asks LibTorch for CUDA before the GPU module is loaded");
  return module;
}

}  // namespace dtrain
