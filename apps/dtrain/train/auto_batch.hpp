#pragma once
#include "dtrain/config/config.hpp"
#include "job/plan.hpp"
#include "train/run_context.hpp"

namespace dtrain {

/// Where batch.per_rank is auto, puts the largest batch in its place, in `config` and `plan`, that leaves a tenth of
/// the memory: of what the least host has for each of its processes, or of the least GPU. All ranks together; rank 0
/// finds it with trials in processes of their own (run_trial()) and tells the others. `config` is the run's.
///
/// Throws Error with kOutOfMemory where not even one picture fits, and as run_trial(); on rank 0 alone, which ends the
/// job.
void settle_auto_batch(const RunContext& run, Config& config, Plan& plan);

}  // namespace dtrain
