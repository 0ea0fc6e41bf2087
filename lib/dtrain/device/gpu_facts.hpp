#pragma once
#include <map>
#include <string>

namespace dtrain {

/// Names and values, as in run.json.
using GpuFacts = std::map<std::string, std::string>;

/// The files in which gpu_facts() looks. cuDNN and cuBLAS count only if this process has loaded them already, which
/// loading the GPU module does.
struct GpuLibraries {
  std::string driver = "libcuda.so.1";
  std::string nvml = "libnvidia-ml.so.1";
  std::string cudnn = "libcudnn.so.9";
  std::string cublas = "libcublas.so.13";
};

/// What chooses the kernels on GPU `device` (as CUDA numbers it), and thereby bits, besides the kind of GPU and this
/// build: the versions of cuDNN ("cudnn": "9.15.1"), cuBLAS ("cublas") and the driver ("driver": "580.65.06") as they
/// run, and the number of multiprocessors ("multiprocessors"), which is smaller on a part of a divided GPU (MIG). What
/// cannot be asked is absent.
GpuFacts gpu_facts(int device, const GpuLibraries& libraries = {});

/// Variables of the environment that are set and change which algorithms cuDNN and cuBLAS choose, or how much memory
/// they find for it.
GpuFacts plan_settings();

/// The names that both have, with values that differ: "cudnn 9.10.2 → 9.15.1, driver 570.1 → 580.65.06"; "" if none.
std::string changed_facts(const GpuFacts& then, const GpuFacts& now);

}  // namespace dtrain
