#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/advice/finding.hpp"

namespace dtrain {

/// What a job needs of one machine and what the machine has; megabytes are 1e6 bytes.
struct MemoryFacts {
  int64_t processes = 1;                     ///< of the job, all assumed to be on this host
  double process_mb = 0;                     ///< of each while it trains
  double saving_mb = 0;                      ///< additional in the one that saves checkpoints
  double shared_mb = 0;                      ///< once per host: data.loader.cache: ram
  double picture_mb = 0;                     ///< of process_mb what each picture of a pass takes
  int64_t pictures = 1;                      ///< of a pass
  std::string batch_key = "batch.per_rank";  ///< what sets them
  int64_t batch_factor = 1;                  ///< pictures of a pass × factor = the value of that key
  double free_mb = 0;                        ///< available now
  double limit_mb = 0;                       ///< in all
  std::string bound = "this host";           ///< what sets the limit, as MemoryBudget::bound
};

/// More memory than there is; more than is free now. The advice names the largest batch that fits.
std::vector<Finding> memory_advice(const MemoryFacts& facts);

/// The same for GPUs, one per process, where `gpus_mb` are this machine's; none if it has none.
/// `process_mb`: on the GPU.
std::vector<Finding> gpu_memory_advice(const MemoryFacts& facts, const std::vector<double>& gpus_mb);

/// A data.loader.cache: ram of `need_mb` beyond four fifths of the host's free memory, the most it may use: the job
/// would train without it.
std::vector<Finding> cache_advice(double need_mb, double free_mb);

}  // namespace dtrain
