#pragma once
#include "dtrain/base/words.hpp"

namespace dtrain {

/// Where the points of a sweep run.
enum class SweepLaunch {
  local,  ///< on this machine, started by mpirun
  slurm,  ///< as jobs of Slurm
};
template <>
inline constexpr auto kWordsOf<SweepLaunch> = std::to_array<Word<SweepLaunch>>({{SweepLaunch::local, "local"},
                                                                                {SweepLaunch::slurm, "slurm"}});

}  // namespace dtrain
