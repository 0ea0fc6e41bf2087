#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/data/store/dataset.hpp"
#include "dtrain/data/store/packed_manifest.hpp"
#include "dtrain/io/packed/packed_shard.hpp"

namespace dtrain {

/// The open shards of a packed data set, mapped into memory. Any number of threads may read; a record is read by
/// touching its bytes, so the order of reading costs nothing.
class PackedSet final : public SampleStore {
 public:
  /// Opens every shard that FOLDER/manifest.json lists: one small read each, no record is touched. Throws as
  /// read_packed_manifest() and PackedShard(); MissingError for a shard that is gone; DataError for a set that is not
  /// complete, is of another kind, or whose shards are not those of the manifest.
  explicit PackedSet(const std::string& folder);

  const PackedManifest& manifest() const { return manifest_; }
  const std::vector<PackedShard>& shards() const { return shards_; }
  const PackedShard& shard(const RecordPlace& place) const { return shards_[static_cast<size_t>(place.file)]; }

  SampleFiles read(const Sample& sample, Wanted wanted) const override;
  Image decode_picture(const Sample& sample, const SampleFiles& files) const override;
  Image decode_mask(const Dataset& dataset, const Sample& sample, const SampleFiles& files) const override;
  std::vector<Image> raw_masks(const Sample& /*sample*/, const SampleFiles& /*files*/) const override { return {}; }
  ImageHeader header(const Sample& sample) const override;
  std::string picture_name(const Sample& sample) const override;
  std::string manifest_text(const Sample& sample) const override;
  std::string why_background() const override;

 private:
  std::string folder_;
  PackedManifest manifest_;
  std::vector<PackedShard> shards_;
};

/// Throws DataError unless `shard` is number `number` of those that the manifest lists.
void require_listed(const PackedShard& shard, const PackedManifest& manifest, int64_t number);

}  // namespace dtrain
