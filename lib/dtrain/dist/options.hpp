#pragma once
#include <cstdint>

#include "dtrain/base/words.hpp"
#include "dtrain/watch/options.hpp"

namespace dtrain {

/// What carries gradients between ranks.
enum class Backend { automatic, nccl, mpi, serial };

template <>
inline constexpr auto kWordsOf<Backend> = std::to_array<Word<Backend>>(
    {{Backend::automatic, "auto"}, {Backend::nccl, "nccl"}, {Backend::mpi, "mpi"}, {Backend::serial, "serial"}});

/// How gradients are added up over ranks.
enum class Reduction {
  canonical,  ///< one fixed tree over logical ranks: the same bits on any number of processes
  ring,       ///< neighbours only: reduce-scatter, then all-gather
  fastest,    ///< the transport's own all-reduce
  root_cpu,   ///< gathered, added up and sent back by rank 0 after backward: the baseline
};

template <>
inline constexpr auto kWordsOf<Reduction> = std::to_array<Word<Reduction>>({{Reduction::canonical, "canonical"},
                                                                            {Reduction::ring, "ring"},
                                                                            {Reduction::fastest, "fastest"},
                                                                            {Reduction::root_cpu, "root_cpu"}});

/// How ranks of one host communicate.
enum class IntraHost {
  automatic,  ///< shared memory if there is room for it
  network,    ///< every byte through MPI's network transport, as if each rank were on a separate host
};

template <>
inline constexpr auto kWordsOf<IntraHost> = std::to_array<Word<IntraHost>>({{IntraHost::automatic, "auto"},
                                                                            {IntraHost::network, "network"}});

/// `distributed:` of the configuration.
struct DistributedOptions {
  int64_t logical_ranks = 0;             ///< V: what the result depends on; 0 = auto: the number of processes
  int64_t threads = 1;                   ///< intra-op threads per process: part of what the bits depend on
  Backend backend = Backend::automatic;  ///< auto: under a launcher nccl between GPUs and mpi between CPUs, else serial
  bool share_device = false;             ///< ranks of one host may share its GPUs; only with Backend::mpi
  Reduction reduction = Reduction::canonical;
  IntraHost intra_host = IntraHost::automatic;
  double bucket_mb = 0;       ///< size of a gradient bucket in 1e6 bytes; 0 = auto: from measured costs
  int64_t check_every = 0;    ///< steps between comparisons of replica hashes; 0 = auto: < 0.5 % of the time
  WatchLimits watchdog = {};  ///< how long without progress until a warning, and until the job ends
};

}  // namespace dtrain
