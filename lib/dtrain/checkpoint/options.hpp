#pragma once
#include <cstdint>
#include <string>

#include "dtrain/base/time.hpp"

namespace dtrain {

/// `checkpoint:` of the configuration.
struct CheckpointOptions {
  Duration every{1, Duration::Unit::epochs};  ///< whole epochs or steps, or time
  int64_t keep = 3;                           ///< newest files kept, >= 1
  int64_t max_failed = 3;                     ///< saves that may fail in a row, >= 1: then the run ends
  std::string best_monitor;  ///< column of epochs.csv, such as valid.loss; "" = the task's default_monitor()
  bool best_is_max = true;
};

}  // namespace dtrain
