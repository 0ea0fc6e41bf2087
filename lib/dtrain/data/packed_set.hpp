#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dtrain/data/dataset.hpp"
#include "dtrain/data/packed_manifest.hpp"
#include "dtrain/io/packed_shard.hpp"

namespace dtrain {

/// The open shards of a packed data set, mapped into memory. Any number of threads may read; a record is read by
/// touching its bytes, so the order of reading costs nothing.
class PackedSet {
 public:
  /// Opens every shard that FOLDER/manifest.json lists: one small read each, no record is touched. Throws as
  /// read_packed_manifest() and PackedShard(); MissingError for a shard that is gone; DataError for a set that is not
  /// complete, is of another kind, or whose shards are not those of the manifest.
  explicit PackedSet(const std::string& folder);

  const PackedManifest& manifest() const { return manifest_; }
  const std::vector<PackedShard>& shards() const { return shards_; }
  const PackedShard& shard(const RecordPlace& place) const { return shards_[static_cast<size_t>(place.file)]; }

 private:
  PackedManifest manifest_;
  std::vector<PackedShard> shards_;
};

/// Throws DataError unless `shard` is number `number` of those that the manifest lists.
void require_listed(const PackedShard& shard, const PackedManifest& manifest, int64_t number);

}  // namespace dtrain
