#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/study/report/model.hpp"

namespace dtrain::test {

/// A finished run of this many epochs and ranks with a value in every field of the model.
ReportedRun made_up_run(int64_t epochs, int64_t ranks, int64_t seed = 1);

/// A study of this many seeds on these numbers of ranks, four of which share a node.
Report made_up_study(const std::vector<std::string>& series, const std::vector<int64_t>& ranks, int64_t seeds,
                     int64_t epochs);

}  // namespace dtrain::test
