#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dtrain/base/task.hpp"

namespace dtrain {

/// manifest.json of a folder that `dtrain pack` wrote: what its shards have in common, and which they are. It is
/// written twice: before the first shard, so that the folder is known to be this job's, and after the last.
/// docs/packed_format.md describes its fields.
struct PackedManifest {
  static constexpr const char* kFile = "manifest.json";

  struct Shard {
    std::string file;  ///< a name in the folder
    int64_t records = 0;
    int64_t bytes = 0;
    uint32_t checksum = 0;  ///< of a packed shard: its header's; of another file: CRC32C of all its bytes
  };

  std::string to = "packed";  ///< or tfrecord, webdataset
  std::string job;            ///< SHA-256 of what decides every byte of the shards, 64 hex digits
  bool complete = false;      ///< all shards are written
  Task task = Task::multilabel;
  std::vector<std::string> classes;
  std::map<int64_t, int64_t> mask_values;  ///< Dataset::mask_values of the source; masks hold class numbers
  std::string codec;                       ///< raw, jpeg, deflate; png
  int64_t jpeg_quality = 0;                ///< 0: no JPEG
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;            ///< at most; grey pictures have one
  std::vector<std::string> files;  ///< data.image.files and .slices of the source: channels that are no colours
  int64_t slices = 1;
  std::string resize;
  int64_t samples_per_shard = 0;
  std::vector<std::string> expand;
  std::map<std::string, int64_t> parts;  ///< records of each part; "none": of those in no part
  std::string source_format;
  std::string source_sha256;  ///< Dataset::manifest_sha256
  std::string split_sha256;
  std::string config_sha256;
  std::vector<Shard> shards;  ///< once complete
};

/// Reads FOLDER/manifest.json. Throws MissingError if there is none, DataError for a damaged one (it has its own
/// checksum) or one of another version.
PackedManifest read_packed_manifest(const std::string& folder);

/// Writes it completely or not at all. Throws like throw_errno.
void write_packed_manifest(const PackedManifest& manifest, const std::string& folder);

}  // namespace dtrain
