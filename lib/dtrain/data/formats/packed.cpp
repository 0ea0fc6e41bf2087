#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/text_files.hpp"
#include "dtrain/data/store/packed_set.hpp"

namespace dtrain {

// Checks that a record fits what the manifest says.
static void require_record(const PackedShard& shard, int64_t record, const PackedEntry& entry,
                           const ImageOptions& image, const Dataset& dataset) {
  const auto classes = static_cast<int64_t>(dataset.classes.size());
  const bool good = dataset.task == Task::multiclass     ? entry.class_index >= 0 && entry.class_index < classes
                    : dataset.task == Task::segmentation ? entry.mask_bytes > 0
                                                         : shard.info().labels == classes;
  if (!good)
    throw DataError(shard.name_of(record) + " does not hold what the task of " + PackedManifest::kFile + " needs");
  if (image.is_stacked() ? entry.channels != image.stacked_channels() : entry.channels != 1 && entry.channels != 3)
    throw DataError(shard.name_of(record) + " holds " + count_of(entry.channels, "channel") +
                    ", which does not fit what " + PackedManifest::kFile + " says of them");
}

static std::string files_text(const std::vector<std::string>& files) {
  return files.empty() ? "none" : "[" + join(files, ", ") + "]";
}

static void packed_channels(const DataOptions& options, ImageOptions& image) {
  try {
    const PackedManifest manifest = read_packed_manifest(options.root);
    image.files = manifest.files;
    image.slices = manifest.slices;
  } catch (const Error&) {  // read_packed() tells
  }
}

static void read_packed(const DataOptions& options, uint64_t /*seed*/, Dataset& dataset) {
  refuse_link_out(options, options.root + "/" + PackedManifest::kFile);
  const auto set = std::make_shared<const PackedSet>(options.root);
  const PackedManifest& manifest = set->manifest();
  if (dataset.task != Task::from_format && dataset.task != manifest.task)
    throw ConfigError("'" + options.root + "' was packed for another task; set task: " + name_of(manifest.task));
  if (options.split.given && !manifest.expand.empty())
    throw ConfigError("'" + options.root +
                      "' holds turned copies (dtrain pack --expand), which another split would separate from their "
                      "originals; leave data.split out: the split that it was packed with is used");
  if (!options.classes.empty() && manifest.task == Task::segmentation)
    throw ConfigError("data.classes cannot choose among the classes of packed masks; leave it out, or pack with it");
  if (manifest.files != options.image.files || manifest.slices != options.image.slices)
    throw ConfigError("'" + options.root + "' was packed with data.image.files " + files_text(manifest.files) +
                      " and data.image.slices " + std::to_string(manifest.slices) +
                      ", which decide what its channels are; set them to that, or leave both out");
  dataset.task = manifest.task;
  dataset.classes = manifest.classes;
  dataset.mask_values = manifest.mask_values;
  dataset.turns = manifest.expand;
  dataset.store = set;
  dataset.own_parts = {OwnParts::By::names, "the packed set", true};
  int64_t bytes = 0;
  SampleTable table(dataset);
  for (size_t i = 0; i < set->shards().size(); ++i) {
    const PackedShard& shard = set->shards()[i];
    refuse_link_out(options, options.root + "/" + manifest.shards[i].file);
    bytes += shard.bytes();
    for (int64_t record = 0; record < shard.records(); ++record) {
      const PackedEntry entry = shard.entry(record);
      require_record(shard, record, entry, options.image, dataset);
      Sample sample;
      sample.path = entry.path;
      sample.group = entry.group;
      sample.part = name_of(entry.part);
      sample.labels = shard.labels(record);
      sample.class_index = entry.class_index;
      sample.place = {static_cast<int64_t>(i), record, entry.offset, entry.bytes(), entry.checksum};
      table.add(std::move(sample));
    }
  }
  dataset.notes.push_back(count_of(static_cast<int64_t>(set->shards().size()), "packed shard") + ", " +
                          with_commas(static_cast<int64_t>(dataset.samples.size())) + " records, " +
                          with_commas(bytes) + " bytes");
  const ImageOptions& image = options.image;
  if (manifest.height != image.height || manifest.width != image.width)
    dataset.notes.push_back("packed at " + std::to_string(manifest.height) + " x " + std::to_string(manifest.width) +
                            ", and resized again to data.image.size, " + std::to_string(image.height) + " x " +
                            std::to_string(image.width) + "; dtrain pack with that size keeps what resizing loses");
}

const DataFormat& packed_format();

static std::vector<Reading> packed_readings(const FolderLook& look) {
  std::vector<Reading> all;
  for (const std::string& file : look.others) {
    if (base_name(file) != PackedManifest::kFile) continue;
    const std::string folder = file.substr(0, file.size() - base_name(file).size());
    Reading reading =
        reading_of(packed_format(), whole_folder(look, folder.substr(0, folder.find_last_not_of('/') + 1)), look);
    reading.likelihood = 100;
    reading.family = "packed " + file;
    reading.sees = "packed shards";
    reading.why["data.root"] = std::string("with ") + PackedManifest::kFile + ", which dtrain pack wrote";
    all.push_back(std::move(reading));
  }
  return all;
}

/// The shards that manifest.json lists (store/packed_set.hpp), written by pack/pack.hpp: samples, names, labels, groups
/// and parts as the original set had them; no sample needs a file of its own. Masks hold class numbers.
const DataFormat& packed_format() {
  static const DataFormat kFormat = {
      .name = "packed",
      .tasks = [](const DataOptions&) { return std::vector<Task>(); },
      .open = read_packed,
      .readings = packed_readings,
      .own_channels = packed_channels,
  };
  return kFormat;
}

}  // namespace dtrain
