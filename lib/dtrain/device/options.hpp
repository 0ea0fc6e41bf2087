#pragma once
#include "dtrain/base/words.hpp"

namespace dtrain {

/// `device:` of the configuration.
enum class DeviceChoice {
  automatic,  ///< a GPU if this build, a driver and a device allow it, else the CPU
  cpu,
  cuda,  ///< a GPU, or an error that says why not
};

template <>
inline constexpr auto kWordsOf<DeviceChoice> = std::to_array<Word<DeviceChoice>>({{DeviceChoice::automatic, "auto"},
                                                                                  {DeviceChoice::cpu, "cpu"},
                                                                                  {DeviceChoice::cuda, "cuda"}});

}  // namespace dtrain
