#include "dtrain/data/packed_set.hpp"

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats.hpp"
#include "dtrain/data/text_files.hpp"

namespace dtrain {

static std::string hex(const std::array<uint8_t, 32>& digest) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

static const char* part_name(PackedPart part) {
  constexpr const char* kNames[] = {"", "train", "valid", "test"};
  return kNames[static_cast<size_t>(part)];
}

void require_listed(const PackedShard& shard, const PackedManifest& manifest, int64_t number) {
  const PackedManifest::Shard& listed = manifest.shards[static_cast<size_t>(number)];
  const PackedShardInfo& info = shard.info();
  if (shard.checksum() == listed.checksum && shard.records() == listed.records && shard.bytes() == listed.bytes &&
      info.number == number && info.count == static_cast<int64_t>(manifest.shards.size()) &&
      hex(info.job) == manifest.job)
    return;
  throw DataError(shard.path() + " is another shard than " + PackedManifest::kFile +
                  " lists under its name; pack again into a new folder");
}

PackedSet::PackedSet(const std::string& folder) : manifest_(read_packed_manifest(folder)) {
  if (manifest_.to != "packed")
    throw DataError("'" + folder + "' was packed to " + manifest_.to + "; set data.format: " + manifest_.to);
  if (!manifest_.complete)
    throw DataError("'" + folder +
                    "' is not packed to its end; start the same dtrain pack again, it goes on from there");
  for (size_t i = 0; i < manifest_.shards.size(); ++i) {
    shards_.emplace_back(MappedFile(folder + "/" + manifest_.shards[i].file));
    require_listed(shards_.back(), manifest_, static_cast<int64_t>(i));
  }
}

// What the manifest and a record promise each other.
static void require_record(const PackedShard& shard, int64_t record, const PackedEntry& entry, const Dataset& dataset) {
  const auto classes = static_cast<int64_t>(dataset.classes.size());
  const bool good = dataset.task == Task::multiclass     ? entry.class_index >= 0 && entry.class_index < classes
                    : dataset.task == Task::segmentation ? entry.mask_bytes > 0
                                                         : shard.info().labels == classes;
  if (!good)
    throw DataError(shard.name_of(record) + " does not hold what the task of " + PackedManifest::kFile + " needs");
}

void read_packed(const DataOptions& options, Dataset& dataset) {
  refuse_link_out(options, options.root + "/" + PackedManifest::kFile);
  const auto set = std::make_shared<const PackedSet>(options.root);
  const PackedManifest& manifest = set->manifest();
  if (dataset.task != Task::from_format && dataset.task != manifest.task)
    throw ConfigError("'" + options.root + "' was packed for another task; set task: " + task_name(manifest.task));
  if (options.split.given && !manifest.expand.empty())
    throw ConfigError("'" + options.root +
                      "' holds turned copies (dtrain pack --expand), which another split would part from their "
                      "originals; leave data.split out: the split that it was packed with counts");
  if (!options.classes.empty() && manifest.task == Task::segmentation)
    throw ConfigError("data.classes cannot choose among the classes of packed masks; leave it out, or pack with it");
  dataset.task = manifest.task;
  dataset.classes = manifest.classes;
  dataset.mask_values = manifest.mask_values;
  dataset.packed = set;
  int64_t bytes = 0;
  SampleTable table(dataset);
  for (size_t i = 0; i < set->shards().size(); ++i) {
    const PackedShard& shard = set->shards()[i];
    refuse_link_out(options, options.root + "/" + manifest.shards[i].file);
    bytes += shard.bytes();
    for (int64_t record = 0; record < shard.records(); ++record) {
      const PackedEntry entry = shard.entry(record);
      require_record(shard, record, entry, dataset);
      Sample sample;
      sample.path = entry.path;
      sample.group = entry.group;
      sample.part = part_name(entry.part);
      sample.labels = shard.labels(record);
      sample.class_index = entry.class_index;
      sample.place = {static_cast<int64_t>(i), record, entry.offset, entry.bytes(), entry.checksum};
      table.add(std::move(sample));
    }
  }
  dataset.notes.push_back(count_of(static_cast<int64_t>(set->shards().size()), "packed shard") + ", " +
                          with_commas(static_cast<int64_t>(dataset.samples.size())) + " records, " +
                          with_commas(bytes) + " bytes");
}

}  // namespace dtrain
