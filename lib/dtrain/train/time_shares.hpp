#pragma once
#include <cstdint>
#include <string>

#include "dtrain/base/timing.hpp"

namespace dtrain {

/// What one epoch of training spent its time on: means over the ranks.
struct TimeShares {
  Timing timing;

  double read_s = 0;    ///< reading files, summed over a rank's loader threads
  double decode_s = 0;  ///< decoding and transforming, summed likewise
  int64_t loader_threads = 1;
  int64_t spare_cores = 0;  ///< cores that this process may use beyond its compute threads; loader threads run there
  double queue_fill = 0;    ///< batches ready when one was asked for ÷ prefetch, 0…1

  int64_t processes = 2;             ///< of the job; with one there is nothing to wait for
  int64_t slowest_rank = 0;          ///< the rank with the largest compute_s
  double slowest_compute_ratio = 1;  ///< its compute_s ÷ the mean of the others', >= 1
};

/// One sentence, without a full stop, that names what the epoch's time was spent on and what would shorten it: the
/// largest of data wait, all-reduce, imbalance and update. "" if none of them takes 10 %: the epoch went into forward
/// and backward, and there is nothing to advise.
///
///   loader-bound: data wait 41 %, decoding; 3 → 6 loader threads would give about 1.7x
std::string time_sentence(const TimeShares& shares);

}  // namespace dtrain
