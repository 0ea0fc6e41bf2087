#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/record_labels.hpp"
#include "dtrain/io/records/tf_example.hpp"
#include "dtrain/io/records/tfrecord.hpp"

namespace dtrain {

namespace {

/// One record's features, by name.
class Example {
 public:
  Example(ByteWindow& bytes, const TfRecordPlace& place)
      : bytes_(bytes),
        name_(tfrecord_name(bytes.path(), place.number, place.offset)),
        features_(find_features(bytes, place.data(), place.size, name_)) {}

  const FeaturePlace& feature(const std::string& wanted, const std::string& key) const {
    const auto found =
        std::find_if(features_.begin(), features_.end(), [&](const FeaturePlace& f) { return f.name == wanted; });
    if (found != features_.end()) return *found;
    std::vector<std::string> names;
    for (const FeaturePlace& place : features_) names.push_back(place.name);
    throw DataError(
        with_list(name_ + " has no feature '" + wanted + "', which data.tfrecord." + key + " names; it has:", names));
  }

  FieldValues values(const std::string& wanted, const std::string& key) const {
    return read_feature(bytes_, feature(wanted, key), name_);
  }

  std::string text(const std::string& wanted, const std::string& key) const {
    const FieldValues found = values(wanted, key);
    if (found.texts.size() == 1) return found.texts[0];
    throw DataError(name_ + ": the feature '" + wanted + "' holds " +
                    count_of(static_cast<int64_t>(found.texts.size()), "value") + ", and data.tfrecord." + key +
                    " wants one");
  }

 private:
  ByteWindow& bytes_;
  std::string name_;
  std::vector<FeaturePlace> features_;
};

/// The records as a store: a sample's picture and mask are features of its record.
class TfRecordSet final : public RecordSet {
 public:
  TfRecordSet(const DataOptions& options, std::vector<std::string> files)
      : RecordSet(options, std::move(files)), names_(options.tfrecord) {}

 private:
  RecordFile open_file(const std::string& path, int64_t room) const override { return open_tfrecord_file(path, room); }

  std::vector<std::byte> bytes_of(const StoredFile& stored) const override {
    const RecordPlace& place = stored.place;
    const std::string& feature = stored.is_mask ? names_.mask : names_.image;
    const std::shared_ptr<const RecordFile> file = open(place.file);
    const std::string name = tfrecord_name(file->path(), place.number, place.offset);
    const RecordFile record(file->path(), read_tfrecord(*file, place.number, place.offset, place.size));
    ByteWindow window(record);
    for (const FeaturePlace& found : find_features(window, 0, window.size(), name)) {
      if (found.name != feature) continue;
      const ByteRange range = byte_string(window, found, name);
      std::vector<std::byte> bytes(static_cast<size_t>(range.size));
      record.read(range.offset, bytes);
      return bytes;
    }
    throw DataError(name + " no longer has the feature '" + feature + "'");
  }

  std::string name_of(const StoredFile& stored) const override {
    const RecordPlace& place = stored.place;
    return tfrecord_name(whole_path(files()[static_cast<size_t>(place.file)]), place.number, place.offset);
  }

  TfRecordOptions names_;
};

bool ends_in(const std::string& name, std::initializer_list<const char*> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return name.ends_with(ending); });
}

// Where "-00001-of-00010" begins, which is how TensorFlow numbers the files of one set; npos if the name has none.
size_t shard_number(const std::string& name) {
  const size_t of = name.rfind("-of-");
  const auto digits = [&](size_t begin, size_t end) {
    return begin < end && name.find_first_not_of("0123456789", begin) >= end;
  };
  if (of == std::string::npos || of == 0 || !digits(of + 4, name.size())) return std::string::npos;
  const size_t dash = name.rfind('-', of - 1);
  return dash != std::string::npos && digits(dash + 1, of) ? dash : std::string::npos;
}

bool is_tfrecord_name(const std::string& file) {
  std::string name = lower_case(file);
  if (ends_in(name, {".gz", ".gzip", ".zlib", ".zz"})) name.resize(name.rfind('.'));
  if (shard_number(name) != std::string::npos) return true;
  return ends_in(name, {".tfrecord", ".tfrecords", ".tfrec", ".tfrecs", ".record", ".records"});
}

// A sample for each record, which `fill` adds its labels to; it gives the bytes of what it keeps of them beside the
// table. The names of the files.
template <typename Fill>
std::vector<std::string> walk_tfrecords(const DataOptions& options, Dataset& dataset, const Fill& fill) {
  const auto records = std::make_shared<const TfRecordSet>(
      options, find_record_files(options, is_tfrecord_name,
                                 "TFRecord file: their names end in .tfrecord, .tfrec, .record or -00001-of-00010, "
                                 ".gz may follow"));
  dataset.store = records;
  SampleTable table(dataset);
  int64_t bytes_of_records = 0;
  for (size_t number = 0; number < records->files().size(); ++number) {
    const std::shared_ptr<const RecordFile> file = records->open(static_cast<int64_t>(number));
    ByteWindow bytes(*file);
    TfRecordWalk walk(bytes);
    bytes_of_records += file->size();
    while (const auto place = walk.next()) {
      const Example example(bytes, *place);
      example.feature(options.tfrecord.image, "image");
      Sample sample;
      sample.path = records->files()[number] + "/" + std::to_string(place->number);
      sample.place = {static_cast<int64_t>(number), place->number, place->offset, place->size,
                      walk.told_checksum(*place)};
      const int64_t beside = fill(example, sample);
      table.add(std::move(sample), beside);
    }
  }
  dataset.notes.push_back(count_of(static_cast<int64_t>(records->files().size()), "TFRecord file") + ", " +
                          with_commas(static_cast<int64_t>(dataset.samples.size())) + " records, " +
                          with_commas(bytes_of_records) + " bytes");
  return records->files();
}

void read_tfrecords(const DataOptions& options, uint64_t /*seed*/, Dataset& dataset) {
  const TfRecordOptions& names = options.tfrecord;
  std::vector<FieldValues> labels;
  const std::vector<std::string> files =
      walk_tfrecords(options, dataset, [&](const Example& example, Sample& sample) -> int64_t {
        if (!names.group.empty()) sample.group = example.text(names.group, "group");
        if (names.mask.empty()) {
          labels.push_back(example.values(names.label, "label"));
          return bytes_of(labels.back());
        }
        example.feature(names.mask, "mask");
        sample.masks = {sample.path + "/" + names.mask};
        sample.mask_places = {sample.place};
        return 0;
      });
  finish_records(options, names.names, labels, files, dataset);
}

void list_tfrecord_pictures(const DataOptions& options, Dataset& dataset) {
  walk_tfrecords(options, dataset, [](const Example&, Sample&) { return int64_t{0}; });
}

}  // namespace

/// Files of tf.train.Example at any depth, recognised by their names (*.tfrecord, *.tfrec, *.record, also in the
/// plural, also followed by -00001-of-00010 or .gz, or *-00001-of-00010 alone); a sample's path is FILE/NUMBER, its
/// record's number from 0. Features: see TfRecordOptions. The data's checksums are verified when a sample is read, not
/// here. Root may be one such file, of any name. Files whose names begin with train and with val, valid, validation or
/// test are the parts, like folders.
const DataFormat& tfrecord_format() {
  static const DataFormat kFormat = {
      .name = "tfrecord",
      .task_default = "segmentation with a `mask`, else multiclass",
      .tasks = tasks_of_records,
      .open = read_tfrecords,
      .check = [](const DataOptions& options, Task, KeyReport& report) { check_records(options, report); },
      .class_names = [](const DataOptions& options) { return record_classes(options, options.tfrecord.names); },
      .class_count = [](const DataOptions& options) { return record_class_count(options, options.tfrecord.names); },
      .class_keys = {"data.tfrecord.names"},
      .classes_told_by = "the record files",
      .record_files = true,
      .is_record_file = is_tfrecord_name,
      .list_pictures = list_tfrecord_pictures,
      .has_masks = [](const DataOptions& options) { return !options.tfrecord.mask.empty(); },
      .masks_key = "data.tfrecord.mask",
      .group_key = "data.tfrecord.group",
  };
  return kFormat;
}

}  // namespace dtrain
