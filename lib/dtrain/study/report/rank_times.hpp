#pragma once
#include <vector>

#include "dtrain/study/report/model.hpp"
#include "dtrain/study/run_record.hpp"

namespace dtrain {

/// A rank counts as slow if it computes and waits for data longer than this many times the median over the ranks, in
/// the mean and in more than half of the epochs: a chance delay is not a slow rank.
inline constexpr double kSlowRank = 1.1;

/// Of ranks.csv, slowest first; empty for a single rank.
std::vector<RankTime> rank_times_of(const RunRecord& run);

}  // namespace dtrain
