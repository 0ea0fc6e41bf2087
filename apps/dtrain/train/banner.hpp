#pragma once
#include <map>
#include <string>
#include <vector>

#include "dtrain/checkpoint/state.hpp"
#include "job/picture_scan.hpp"
#include "job/plan.hpp"
#include "train/resume.hpp"
#include "train/run_context.hpp"
#include "train/training_parts.hpp"

namespace dtrain {

using RanksTable = std::vector<std::map<std::string, std::string>>;

/// Rank 0's lines before the first step: what runs where, on which data, with which network, and warnings about these:
/// of what `dtrain check` lists what the index of the data, and `pictures`, glance_at_pictures() or nothing, can tell.
/// `table`: Job::table().
void tell_beginning(const RunContext& run, const Plan& plan, const TrainingParts& built, const TrainingState& state,
                    const Resume& resume, const RanksTable& table, const PictureFacts& pictures);

}  // namespace dtrain
