#include "dtrain/base/random.hpp"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "dtrain/base/error.hpp"

namespace dtrain {

static uint64_t mixed(uint64_t x) {  // the finaliser of SplitMix64: a bijection that spreads every bit
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

static std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

// The Philox key is 64 bits mixed from (seed, purpose, a); the counter holds the position in the stream and the 64 bits
// of b. So streams that differ only in b never overlap, and others only if their mixes collide.
KeyedRandom::KeyedRandom(uint64_t seed, Purpose purpose, uint64_t a, uint64_t b) {
  const uint64_t stem = mixed(seed + 0x9e3779b97f4a7c15ULL) ^ (uint64_t{static_cast<uint32_t>(purpose)} << 56);
  const uint64_t key = mixed(mixed(stem) + a);
  key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  counter_ = {0, 0, static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)};
}

void KeyedRandom::refill() {
  block_ = philox(counter_, key_);
  if (++counter_[0] == 0) ++counter_[1];
  used_ = 0;
}

uint32_t KeyedRandom::next32() {
  if (used_ == 4) refill();
  return block_[static_cast<size_t>(used_++)];
}

uint64_t KeyedRandom::next64() {
  const uint64_t low = next32();
  return low | uint64_t{next32()} << 32;
}

double KeyedRandom::uniform() { return static_cast<double>(next64() >> 11) * 0x1.0p-53; }

uint64_t KeyedRandom::below(uint64_t bound) {
  check(bound >= 1, "a random choice has something to choose from");
  const uint64_t limit = bound * (~uint64_t{0} / bound);  // a multiple of bound; draws from there on are repeated
  uint64_t draw = next64();
  while (draw >= limit) draw = next64();
  return draw % bound;
}

double KeyedRandom::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

void KeyedRandom::fill(std::span<uint32_t> out) {
  size_t i = 0;
  while (i < out.size() && used_ != 4) out[i++] = next32();
  for (; i + 4 <= out.size(); i += 4) {
    const auto block = philox(counter_, key_);
    if (++counter_[0] == 0) ++counter_[1];
    std::copy(block.begin(), block.end(), out.begin() + static_cast<std::ptrdiff_t>(i));
  }
  while (i < out.size()) out[i++] = next32();
}

std::vector<int64_t> keyed_permutation(int64_t n, uint64_t seed, Purpose purpose, uint64_t a, uint64_t b) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  KeyedRandom random(seed, purpose, a, b);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace dtrain
