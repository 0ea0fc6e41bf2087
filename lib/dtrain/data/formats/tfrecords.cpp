#include <algorithm>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/record_labels.hpp"
#include "dtrain/io/records/tf_example.hpp"
#include "dtrain/io/records/tfrecord.hpp"

namespace dtrain {

const DataFormat& tfrecord_format();

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
    throw DataError(with_list(name_ + " has no feature '" + wanted + "', which data.tfrecord." + key +
                                  " names; name another there, or take the record out; it has:",
                              names));
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

// --- which features may be what

// What the usual writers say of the picture itself.
bool describes_picture(const std::string& feature) {
  static const std::set<std::string> kWords = {"height", "width",     "depth", "channels", "format",    "filename",
                                               "path",   "source_id", "key",   "sha256",   "colorspace"};
  return kWords.contains(lower_case(feature.substr(feature.rfind('/') + 1)));
}

/// The features of a file's first record.
class FirstRecord {
 public:
  FirstRecord(const std::string& path, int64_t room) : file_(open_tfrecord_file(path, room)), bytes_(file_) {
    TfRecordWalk walk(bytes_);
    if (const auto place = walk.next()) {
      name_ = tfrecord_name(path, place->number, place->offset);
      features_ = find_features(bytes_, place->data(), place->size, name_);
    }
  }

  std::vector<std::string> pictures() {
    std::vector<std::string> names;
    for (const FeaturePlace& feature : features_)
      if (is_picture(feature)) names.push_back(feature.name);
    return names;
  }

  /// Those of one value that is no picture.
  std::vector<std::string> single_values() {
    std::vector<std::string> names;
    for (const FeaturePlace& feature : features_) {
      if (is_picture(feature) || feature.size > 256 || describes_picture(feature.name)) continue;
      if (read_feature(bytes_, feature, name_).texts.size() == 1) names.push_back(feature.name);
    }
    return names;
  }

 private:
  bool is_picture(const FeaturePlace& feature) {
    if (feature.size < 32) return false;
    try {
      const ByteRange range = byte_string(bytes_, feature, name_);
      std::vector<std::byte> start(static_cast<size_t>(range.size));
      file_.read(range.offset, start);
      read_image_header(start, name_);
      return true;
    } catch (const DataError&) {
      return false;
    }
  }

  RecordFile file_;
  ByteWindow bytes_;
  std::string name_;
  std::vector<FeaturePlace> features_;
};

bool sounds_like_labels_feature(const std::string& name) {
  const std::string word = lower_case(name.substr(name.rfind('/') + 1));
  return word == "label" || word == "labels" || word == "class" || word == "target";
}

// The readings of `root`, as the first record of `file` has its features.
std::vector<Reading> readings_of_records(const std::string& root, const std::string& file, const FolderLook& look) {
  std::vector<Reading> all;
  Reading first = reading_of(tfrecord_format(), root, look);
  first.family = "features of " + root;
  first.question = "which feature is the label";
  first.sees = "TFRecord files";
  first.likelihood = 80;
  TfRecordOptions& names = first.options.tfrecord;
  std::vector<std::string> pictures;
  std::vector<std::string> labels;
  try {
    FirstRecord record(file, first.options.loader.decompressed_mb * 1'000'000);
    pictures = record.pictures();
    labels = record.single_values();
  } catch (const Error&) {
    return {first};  // opening it says what is wrong
  }
  const std::string usual = names.image;
  for (const std::string& picture : pictures)
    if (names.image == usual || picture == usual) names.image = picture;
  for (const std::string& picture : pictures)
    if (picture != names.image && sounds_like_masks(picture.substr(0, picture.find('/')))) names.mask = picture;
  first.why["data.tfrecord.image"] = "the feature with a picture";
  if (!names.mask.empty()) {
    first.why["data.tfrecord.mask"] = "a second picture, by its name the mask";
    return {first};
  }
  const auto likely = [](const std::string& name) { return sounds_like_labels_feature(name); };
  std::stable_partition(labels.begin(), labels.end(), likely);
  const auto sure = std::count_if(labels.begin(), labels.end(), likely);
  for (const std::string& label : labels) {
    Reading reading = first;
    reading.options.tfrecord.label = label;
    reading.decides = {"data.tfrecord.label"};
    reading.trust = sure == 1 && likely(label) ? Reading::Trust::certain : Reading::Trust::asked;
    all.push_back(std::move(reading));
  }
  if (all.empty()) all.push_back(first);
  return all;
}

// False for a file that cannot be read, too.
bool holds_pictures(const std::string& path) {
  try {
    return !FirstRecord(path, DataOptions().loader.decompressed_mb * 1'000'000).pictures().empty();
  } catch (const Error&) {
    return false;
  }
}

std::vector<Reading> tfrecord_readings(const FolderLook& look) {
  std::vector<std::string> files;
  for (const std::string& file : look.others)
    if (is_tfrecord_name(file)) files.push_back(file);
  if (files.empty()) return {};
  if (is_file(look.root)) return readings_of_records(look.root, look.root, look);
  constexpr size_t kMostLooked = 4;
  std::vector<std::string> with_pictures;
  const size_t looked = std::min(files.size(), kMostLooked);
  for (size_t i = 0; i < looked; ++i)
    if (const std::string path = whole_folder(look, files[i]); holds_pictures(path)) with_pictures.push_back(path);
  if (with_pictures.empty() || with_pictures.size() == looked)
    return readings_of_records(look.root, whole_folder(look, files.front()), look);
  std::vector<Reading> all;  // other files hold other things
  for (const std::string& path : with_pictures)
    for (Reading& reading : readings_of_records(path, path, look)) {
      reading.why["data.root"] = "other record files in the folder hold no pictures";
      all.push_back(std::move(reading));
    }
  return all;
}

}  // namespace

/// Files of tf.train.Example at any depth, recognised by their names (*.tfrecord, *.tfrec, *.record, also in the
/// plural, also followed by -00001-of-00010 or .gz, or *-00001-of-00010 alone); a sample's path is FILE/NUMBER, its
/// record's number from 0. Features: see TfRecordOptions. The data's checksums are verified when a sample is read, not
/// here. Root may be one such file, of any name. Files whose names begin with train and with val, valid, validation or
/// test, or differ in these words alone, are the parts, like folders.
const DataFormat& tfrecord_format() {
  static const DataFormat kFormat = {
      .name = "tfrecord",
      .wants = "TFRecord files",
      .task_default = "segmentation with a `mask`, else multiclass",
      .tasks = tasks_of_records,
      .open = read_tfrecords,
      .check = [](const DataOptions& options, Task, KeyReport& report) { check_records(options, report); },
      .readings = tfrecord_readings,
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
