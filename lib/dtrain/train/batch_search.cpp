#include "dtrain/train/batch_search.hpp"

#include <algorithm>
#include <cmath>

namespace dtrain {
namespace {

struct Measured {
  double batch = 0;
  double need_mb = 0;
};

// Where the line through two measurements meets the room, rounded down; at most `most`.
int64_t meeting(const Measured& one, const Measured& other, double room_mb, int64_t most) {
  const double slope = (other.need_mb - one.need_mb) / (other.batch - one.batch);
  if (slope <= 0) return most;
  const double batch = other.batch + (room_mb - other.need_mb) / slope;
  return static_cast<int64_t>(std::floor(std::clamp(batch, 0.0, static_cast<double>(most))));
}

}  // namespace

BatchFound find_largest_batch(const BatchRoom& room, const std::function<std::optional<double>(int64_t)>& need_mb) {
  constexpr int64_t kMostTrials = 12;
  constexpr int64_t kWorthwhile = 32;  // a gain of less than one in that many is not
  constexpr int64_t kCautious = 16;
  BatchFound found;
  int64_t too_large = room.most + 1;
  Measured before{0, room.fixed_mb}, last = before;
  int64_t next = std::clamp<int64_t>(room.first, 1, room.most);
  while (found.trials < kMostTrials) {
    ++found.trials;
    const std::optional<double> need = need_mb(next);
    const bool fits = need && *need <= room.room_mb;
    if (fits) {
      found.batch = next;
      found.need_mb = *need;
    } else {
      too_large = next;
    }
    if (need) {
      before = last;
      last = {static_cast<double>(next), *need};
    }
    if (found.batch + 1 >= too_large) break;
    // Of one that was ended nothing is known but that it is too large: the line was wrong there.
    int64_t candidate = need ? meeting(before, last, room.room_mb, room.most) : (found.batch + too_large) / 2;
    candidate = std::clamp(candidate, found.batch, too_large - 1);
    if (found.trials == 1 && fits)  // an estimate is one of its ends: rather stay below, with half of a line measured
      candidate =
          std::clamp(candidate - candidate / kCautious, std::min(2 * found.batch, too_large - 1), too_large - 1);
    if (found.batch == 0) candidate = std::max<int64_t>(1, candidate);
    if (found.batch > 0 && candidate - found.batch <= found.batch / kWorthwhile) break;
    next = candidate;
  }
  found.at_most = found.batch == room.most;
  return found;
}

}  // namespace dtrain
