#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/io/packed/packed_shard.hpp"

namespace dtrain {

/// One record to be written: its row, its labels, and its pixels as they will be in the file.
struct PackedRecord {
  PackedEntry entry;  ///< without path, group and offset; write_packed_shard() gives the offset
  std::string path;   ///< 1 … 65,535 bytes
  std::string group;  ///< at most 65,535 bytes
  std::vector<float> labels;
  std::vector<std::byte> stored;
};

/// Encodes picture and mask (null: none; 8 bits, one channel, of the picture's size) and takes their checksum. `part`,
/// names and labels are the caller's to add. Equal input gives equal bytes, with one version of libjpeg and zlib.
PackedRecord make_packed_record(const Image& picture, const Image* mask, PackedCodec codec, int jpeg_quality);

/// Writes a shard, whole or not at all (AtomicFile). Throws DataError for names that are too long, like throw_errno.
void write_packed_shard(const std::string& path, const PackedShardInfo& info, std::vector<PackedRecord> records);

}  // namespace dtrain
