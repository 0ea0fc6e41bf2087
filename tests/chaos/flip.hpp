#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/random.hpp"
#include "dtrain/train/replica.hpp"

namespace dtrain {

enum class FlipKind { parameter, optimizer, buffer };
inline constexpr const char* kFlipKindNames[] = {"parameter", "optimizer", "buffer"};

/// A tensor of the replica in which a bit can be flipped, under its name in a checkpoint.
struct FlipTarget {
  FlipKind kind;
  std::string name;
  at::Tensor flat;    ///< the flat tensor that holds it; undefined: the optimizer's count of updates
  int64_t begin = 0;  ///< first element
  int64_t numel = 1;  ///< with its gap in the flat layout
};

/// Every tensor of the replica that training changes, counters too. Valid for one layout: list again after a reorder().
std::vector<FlipTarget> flip_targets(Replica& replica);

/// One bit of one element, on one rank.
struct Flip {
  size_t target = 0;
  int64_t element = 0;
  int bit = 0;  ///< 0 … 31, of counters 0 … 63
  int rank = 0;
};

/// Flip number `number` of a seed. Each choice is uniform: first one of the three kinds, then one of its tensors
/// whatever their sizes, then an element (or one of the gap after the tensor), a bit and a rank.
Flip draw_flip(const std::vector<FlipTarget>& targets, uint64_t seed, int64_t number, int ranks);

/// Flips the bit here.
void flip_bit(Replica& replica, const FlipTarget& target, const Flip& flip);

/// The values of everything that training changes, to go back to.
class Snapshot {
 public:
  explicit Snapshot(Replica& replica);
  void put_back(Replica& replica) const;

 private:
  at::Tensor parameters_;
  at::Tensor buffers_;
  std::vector<at::Tensor> state_;
  int64_t steps_tracked_;
  int64_t updates_;
};

}  // namespace dtrain
