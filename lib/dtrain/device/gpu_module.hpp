#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>

#include "dtrain/device/device_graph.hpp"
#include "dtrain/device/flat_math.hpp"
#include "dtrain/device/nccl_api.hpp"
#include "dtrain/device/norm_math.hpp"

namespace dtrain {

/// Everything that needs the CUDA toolkit or NCCL at build time, behind one interface: libdtrain_cuda.so. Loading it
/// brings in LibTorch's CUDA half, which costs time and memory, so it happens only if there is a GPU to use. Streams,
/// events, copies and pinned memory need nothing from here: LibTorch has them for any device, once its CUDA half is
/// loaded.
class GpuModule {
 public:
  virtual ~GpuModule() = default;

  virtual const FlatMath& math() const = 0;
  virtual const NormMath& norms() const = 0;
  virtual NcclApi& nccl() = 0;
  /// An empty one, for this thread's device. At most one is being recorded at a time; all share their memory.
  virtual std::unique_ptr<DeviceGraph> make_graph() = 0;

  /// Makes the GPU of this number this thread's, and tests whether it can be used at all. Returns it as LibTorch names
  /// it. Throws ConfigError with the driver's message (exclusive to another process …), Error with kOutOfMemory.
  virtual c10::Device use_device(int number) = 0;
  /// The most that LibTorch has held of this thread's device so far, in 1e6 bytes.
  virtual double memory_peak_mb() const = 0;
  /// Free memory of this thread's device, in 1e6 bytes.
  virtual double memory_free_mb() const = 0;
  /// "13.0"
  virtual std::string cuda_version() const = 0;
};

/// What the module exports: its one function, and what it was built as: the text of its ModuleStamp. The program loads
/// a module of its own build only, as the two share C++ classes.
struct GpuModuleEntry {
  const char* build;  ///< names the headers that both share, LibTorch and the kind of build (cmake/DtrainCuda.cmake)
  GpuModule& (*module)();
};
inline constexpr const char* kGpuModuleEntry = "dtrain_gpu_module_entry";  ///< extern "C" const GpuModuleEntry

/// Loads libdtrain_cuda.so, which then stays for the life of the process; base/module_file.hpp says from where, and
/// what is refused. Throws MissingError if there is none, it is of another build or the loader refuses it, and
/// PermissionError if somebody else could have put it there.
GpuModule& load_gpu_module();

/// Where load_gpu_module() would find it, "" if there is none: the program was built without CUDA.
std::string gpu_module_path();

}  // namespace dtrain
