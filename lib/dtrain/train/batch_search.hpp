#pragma once
#include <cstdint>
#include <functional>
#include <optional>

namespace dtrain {

/// Where a search for the largest batch may look. Megabytes are 1e6 bytes.
struct BatchRoom {
  double room_mb = 0;   ///< what a process may need
  double fixed_mb = 0;  ///< an estimate of what it needs besides its pictures; below room_mb, or nothing fits
  int64_t first = 1;    ///< the batch to try first, better too small than too large
  int64_t most = 1;     ///< the largest worth having, at least 1
};

/// What a search has found.
struct BatchFound {
  int64_t batch = 0;   ///< the largest that fits; 0: not even one picture does
  double need_mb = 0;  ///< of a process with it
  int64_t trials = 0;
  bool at_most = false;  ///< `batch` is BatchRoom::most: more memory would not make it larger
};

/// Finds the largest batch that fits by few trials, each of which is costly. `need_mb` tries a batch and says how many
/// megabytes it took, none if it was ended because it took too much. The need grows with the batch, and nearly on a
/// line: each trial but the first is where the line through the last two ones meets the room, the second at least twice
/// the first where that fits, since only its line is measured. Ends when no batch is
/// left between one that fits and one that does not, when the line leaves no larger one, or when one more would gain
/// less than a thirty-second. What it gives has been tried.
BatchFound find_largest_batch(const BatchRoom& room, const std::function<std::optional<double>(int64_t)>& need_mb);

}  // namespace dtrain
