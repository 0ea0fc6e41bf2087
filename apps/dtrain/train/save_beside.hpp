#pragma once
#include <string>
#include <vector>

#include "dtrain/checkpoint/state.hpp"
#include "dtrain/checkpoint/tensors.hpp"
#include "dtrain/runlog/run_folder.hpp"
#include "dtrain/runlog/run_lock.hpp"
#include "dtrain/runlog/run_log.hpp"

namespace dtrain {

/// What a run still has of its folder when the folder's path leads elsewhere.
struct LostFolder {
  const RunFolder& folder;
  RunLock& lock;
  const RunLog& log;
};

/// Rank 0's last act for a run whose folder was removed, moved or replaced: everything that is still in memory or
/// behind open descriptors goes into RUN.rescued, a run folder that training can resume from: a checkpoint of `state`
/// and `tensors`, the configuration, run.json of `facts`, the rows and events, and best.safetensors and log.txt if the
/// old folder still has them. Always throws IoError: what happened to the folder, and where to resume or why nothing
/// could be saved.
[[noreturn]] void save_beside(const LostFolder& lost, const TrainingState& state,
                              const std::vector<FileTensor>& tensors, const std::string& config, const RunFacts& facts);

}  // namespace dtrain
