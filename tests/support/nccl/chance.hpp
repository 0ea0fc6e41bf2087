#pragma once
#include <cstdint>

namespace dtrain::test {

/// Random numbers by a seed (splitmix64). One thread at a time.
class Chance {
 public:
  explicit Chance(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// 0 … bound-1; bound >= 1.
  int64_t below(int64_t bound) { return static_cast<int64_t>(next() % static_cast<uint64_t>(bound)); }

 private:
  uint64_t state_;
};

}  // namespace dtrain::test
