#pragma once
// Corrects the checksums of packed shards that were changed, so that the code behind the checksums is tested, too.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "dtrain/base/hash.hpp"

namespace dtrain::test {

template <typename Value>
Value packed_number(const std::vector<std::byte>& shard, size_t at) {
  Value value{};
  if (at + sizeof value <= shard.size()) std::memcpy(&value, shard.data() + at, sizeof value);
  return value;
}

template <typename Value>
void set_packed_number(std::vector<std::byte>& shard, size_t at, Value value) {
  if (at + sizeof value <= shard.size()) std::memcpy(shard.data() + at, &value, sizeof value);
}

/// By docs/packed_format.md; whatever the bytes say, nothing beyond them is touched.
inline void seal_packed(std::vector<std::byte>& shard) {
  const auto crc_of = [&](size_t begin, size_t count) {
    const size_t first = std::min(begin, shard.size());
    return crc32c(std::span(shard).subspan(first, std::min(count, shard.size() - first)));
  };
  const auto aligned = [](size_t size) { return (size + 63) / 64 * 64; };
  const auto records = packed_number<uint32_t>(shard, 16);
  for (size_t row = 128; row + 48 <= shard.size() && row < 128 + size_t{48} * records; row += 48) {
    const size_t bytes =
        aligned(packed_number<uint32_t>(shard, row + 8)) + aligned(packed_number<uint32_t>(shard, row + 12));
    set_packed_number(shard, row + 16, crc_of(packed_number<uint64_t>(shard, row), bytes));
  }
  set_packed_number(shard, 80, crc_of(128, packed_number<uint64_t>(shard, 32)));
  set_packed_number(shard, 124, crc_of(0, 124));
}

}  // namespace dtrain::test
