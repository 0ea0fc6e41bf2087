#pragma once
#include <cstdint>
#include <span>

#include "dtrain/base/random.hpp"

namespace dtrain {

/// The samples that may take the place of one that cannot be decoded, in the order in which they are tried: keyed by
/// (seed, id of the bad sample), so the same on whatever process, thread and epoch, and with whatever cache. Some may
/// be bad themselves, and one may come twice.
class Substitutes {
 public:
  /// Number of tries: in a part of which half is bad, all of them fail once in 2^kMost times.
  static constexpr int kMost = 64;

  /// `part`: indices of the training part, not empty; it outlives the object.
  Substitutes(uint64_t seed, uint64_t sample_id, std::span<const int64_t> part)
      : random_(seed, Purpose::substitute, sample_id), part_(part) {}
  int64_t next() { return part_[static_cast<size_t>(random_.below(part_.size()))]; }

 private:
  KeyedRandom random_;
  std::span<const int64_t> part_;
};

}  // namespace dtrain
