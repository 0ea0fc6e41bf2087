#include "dtrain/data/store/packed_set.hpp"

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"

namespace dtrain {

static std::string hex(const std::array<uint8_t, 32>& digest) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

void require_listed(const PackedShard& shard, const PackedManifest& manifest, int64_t number) {
  const PackedManifest::Shard& listed = manifest.shards[static_cast<size_t>(number)];
  const PackedShardInfo& info = shard.info();
  if (shard.checksum() == listed.checksum && shard.records() == listed.records && shard.bytes() == listed.bytes &&
      info.number == number && info.count == static_cast<int64_t>(manifest.shards.size()) &&
      hex(info.job) == manifest.job)
    return;
  throw DataError(shard.path() + " is not the shard that " + PackedManifest::kFile +
                  " lists under its name; pack again into a new folder");
}

PackedSet::PackedSet(const std::string& folder) : folder_(folder), manifest_(read_packed_manifest(folder)) {
  if (manifest_.to != "packed")
    throw DataError("'" + folder + "' was packed to " + manifest_.to + "; set data.format: " + manifest_.to);
  if (!manifest_.complete)
    throw DataError("'" + folder +
                    "' is not completely packed; run the same dtrain pack again, it continues from there");
  for (size_t i = 0; i < manifest_.shards.size(); ++i) {
    shards_.emplace_back(MappedFile(folder + "/" + manifest_.shards[i].file));
    require_listed(shards_.back(), manifest_, static_cast<int64_t>(i));
  }
}

SampleFiles PackedSet::read(const Sample& sample, Wanted /*wanted*/) const {
  return {{}, {}, {}, shard(sample.place).read(sample.place.number)};
}

Image PackedSet::decode_picture(const Sample& sample, const SampleFiles& files) const {
  return shard(sample.place).picture(sample.place.number, files.mapped);
}

Image PackedSet::decode_mask(const Dataset& dataset, const Sample& sample, const SampleFiles& files) const {
  Image mask = shard(sample.place).mask(sample.place.number, files.mapped);
  if (std::any_of(mask.bytes.begin(), mask.bytes.end(), [&](uint8_t k) { return k > dataset.classes.size(); }))
    throw DataError(picture_name(sample) + ": its mask holds a class beyond those of the set");
  return mask;
}

ImageHeader PackedSet::header(const Sample& sample) const {
  const PackedEntry entry = shard(sample.place).entry(sample.place.number);
  return {entry.height, entry.width, entry.channels, entry.bits};
}

std::string PackedSet::picture_name(const Sample& sample) const {
  return shard(sample.place).name_of(sample.place.number);
}

std::string PackedSet::manifest_text(const Sample& sample) const {
  return std::to_string(sample.place.size) + " " + hex8(sample.place.checksum) + '\0';
}

std::string PackedSet::why_background() const {
  return "those of the packed set '" + folder_ +
         "' are all background; this depends on mask_values of the configuration that it was packed with";
}

}  // namespace dtrain
