#pragma once

namespace dtrain {

/// `device:` of the configuration.
enum class DeviceChoice {
  automatic,  ///< a GPU where this build, a driver and a device can be had, else the CPU
  cpu,
  cuda,  ///< a GPU, or an error that says why not
};

}  // namespace dtrain
