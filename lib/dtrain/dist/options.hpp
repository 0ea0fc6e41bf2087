#pragma once
#include <cstdint>

namespace dtrain {

enum class Backend { automatic, mpi, serial };

/// `distributed:` of the configuration.
struct DistributedOptions {
  int64_t logical_ranks = 0;             ///< V: what the result depends on; 0 = auto: the number of processes
  int64_t threads = 1;                   ///< intra-op threads per process: part of what the bits depend on
  Backend backend = Backend::automatic;  ///< auto: mpi under a launcher, else serial
  double bucket_mb = 0;                  ///< size of a gradient bucket in 1e6 bytes; 0 = auto
  double watchdog_abort_s = 600;         ///< seconds without progress after which the job ends with 76
};

}  // namespace dtrain
