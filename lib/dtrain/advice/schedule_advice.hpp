#pragma once
#include <cstdint>
#include <vector>

#include "dtrain/advice/finding.hpp"

namespace dtrain {

/// How many updates a run makes, at which rates.
struct ScheduleFacts {
  int64_t samples = 0;  ///< of the training part
  int64_t steps_per_epoch = 1;
  int64_t epochs = 1;
  int64_t logical_ranks = 1;
  int64_t global_batch = 1;
  double base_rate = 0;
  double scaled_rate = 0;
  double warmup_epochs = 0;
};

/// Too few updates to learn much; a rate scaled with the ranks that starts at its full value (Goyal et al.,
/// "Accurate, large minibatch SGD", 2017, found warmup to be needed there).
std::vector<Finding> schedule_advice(const ScheduleFacts& facts);

}  // namespace dtrain
