#pragma once
#include <string>

#include "dtrain/config/experiment.hpp"
#include "dtrain/device/device.hpp"
#include "dtrain/dist/communicator.hpp"

namespace dtrain {

/// What all ranks agreed on, and this rank's part of it.
struct ChosenDevice {
  Device device;
  std::string name = "cpu";  ///< "cuda:0 NVIDIA H100 80GB HBM3"
  std::string gpu_uuid;      ///< Gpu::uuid; "" on a CPU
  std::string pci;           ///< Gpu::pci; "" on a CPU
  std::string why_cpu;       ///< one clause; "" on a GPU and if the configuration asks for the CPU
  bool gpu_idle = false;     ///< some rank sees a GPU that this job could not use
};

/// GPUs for all ranks or for none, one each (or shared, if the configuration says so), made ready for use. With device:
/// auto the CPU computes if any rank cannot load the GPU module. All ranks call it together. Throws ConfigError that
/// says what to do.
ChosenDevice choose_device(const Experiment& experiment, Communicator& comm, int local_rank);

}  // namespace dtrain
