#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace dtrain {

/// What a random number is for. Two purposes never share numbers. The values are part of every run's bits: append only.
enum class Purpose : uint32_t {
  initial_weights = 1,
  epoch_order = 2,
  split = 3,
  augmentation = 4,
  dropout = 5,
  synthetic_data = 6,
  sample_set = 7,
  bootstrap = 8,
  augmentation_field = 9,  ///< numbers for one sample's pixels; the seed was drawn from `augmentation`
  mixing = 10,
  substitute = 11,
  balanced_draw = 12,
};

/// A stream of random numbers that is a pure function of its key (seed, purpose, a, b): counter-based, Philox 4x32-10
/// (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Nothing is saved because nothing is stored:
/// the key gives the numbers, in any order, on any process or thread.
///
/// The same on every machine: no standard-library distribution is used (they differ between libraries).
class KeyedRandom {
 public:
  /// `a` and `b` depend on the purpose: epoch or step, sample id or logical rank.
  KeyedRandom(uint64_t seed, Purpose purpose, uint64_t a = 0, uint64_t b = 0);

  uint32_t next32();
  uint64_t next64();
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Uniform in [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Uniform in 0 … bound-1, without bias. bound >= 1.
  uint64_t below(uint64_t bound);
  /// Normal with mean 0 and variance 1 (Box–Muller).
  double normal();
  /// True with probability `p`.
  bool chance(double p) { return uniform() < p; }

  /// 32 random bits for each place of `out`, as next32() would give them, but fast.
  void fill(std::span<uint32_t> out);

 private:
  void refill();

  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

/// A permutation of 0 … n-1 (Fisher–Yates), a pure function of (seed, purpose, a, b).
std::vector<int64_t> keyed_permutation(int64_t n, uint64_t seed, Purpose purpose, uint64_t a, uint64_t b = 0);

}  // namespace dtrain
