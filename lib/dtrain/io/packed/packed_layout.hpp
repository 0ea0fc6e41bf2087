#pragma once
#include <cstdint>

// Where every number of a packed shard is, as in docs/packed_format.md; packed_shard.cpp and packed_writer.cpp
// alone include this.

namespace dtrain {

/// `bytes` filled up to a multiple of 64.
constexpr int64_t packed_aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

namespace layout {

constexpr uint32_t kThisVersion = 1;

// In the header, which begins with the eight bytes "dtpack\r\n".
constexpr int64_t kVersion = 8;
constexpr int64_t kCodec = 12;
constexpr int64_t kRecords = 16;
constexpr int64_t kLabels = 20;
constexpr int64_t kNumber = 24;
constexpr int64_t kCount = 28;
constexpr int64_t kIndexBytes = 32;
constexpr int64_t kFileBytes = 40;
constexpr int64_t kJob = 48;
constexpr int64_t kIndexChecksum = 80;
constexpr int64_t kHeaderEnd = 84;  // zeros up to the checksum
constexpr int64_t kHeaderChecksum = 124;

// In a row of the index.
constexpr int64_t kOffset = 0;
constexpr int64_t kPictureBytes = 8;
constexpr int64_t kMaskBytes = 12;
constexpr int64_t kChecksum = 16;
constexpr int64_t kHeight = 20;
constexpr int64_t kWidth = 24;
constexpr int64_t kChannels = 28;
constexpr int64_t kBits = 29;
constexpr int64_t kPart = 30;
constexpr int64_t kRowZero = 31;
constexpr int64_t kClass = 32;
constexpr int64_t kText = 36;
constexpr int64_t kPathBytes = 40;
constexpr int64_t kGroupBytes = 42;
constexpr int64_t kRowEnd = 44;  // four bytes of zeros

}  // namespace layout

}  // namespace dtrain
