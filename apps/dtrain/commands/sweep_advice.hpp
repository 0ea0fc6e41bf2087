#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/study/rate_advice.hpp"
#include "line/command_line.hpp"

namespace dtrain {

/// For --advise: makes the command's plan and overrides those of the short runs (advice_plan()), and says what they are
/// about; nothing for any other sweep. Reads the data as far as the steps of an epoch. V is the number of --ranks, else
/// distributed.logical_ranks. Throws UsageError for no V above 1, several, or a study file; ConfigError for
/// batch.global, with which the batch does not grow; as load_config() and make_plan().
std::optional<AdviceAsked> plan_advice(SweepCommand& command);

/// Processes that a short run may have: the GPUs of this machine if it would train on them, else `cores`.
int64_t places_for_advice(const SweepCommand& command, int64_t cores);

}  // namespace dtrain
