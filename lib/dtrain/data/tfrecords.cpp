#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats.hpp"
#include "dtrain/data/record_labels.hpp"
#include "dtrain/data/record_set.hpp"
#include "dtrain/io/tf_example.hpp"
#include "dtrain/io/tfrecord.hpp"

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

}  // namespace

void read_tfrecords(const DataOptions& options, Dataset& dataset) {
  const TfRecordOptions& names = options.tfrecord;
  const auto records = std::make_shared<const RecordSet>(options, find_record_files(options));
  dataset.records = records;
  std::vector<FieldValues> labels;
  SampleTable table(dataset);
  int64_t bytes_of_records = 0;
  for (size_t number = 0; number < records->files().size(); ++number) {
    const std::shared_ptr<const RecordFile> file = records->open(static_cast<int64_t>(number));
    ByteWindow bytes(*file);
    TfRecordWalk walk(bytes);
    bytes_of_records += file->size();
    while (const auto place = walk.next()) {
      const Example example(bytes, *place);
      example.feature(names.image, "image");
      Sample sample;
      sample.path = records->files()[number] + "/" + std::to_string(place->number);
      if (!names.group.empty()) sample.group = example.text(names.group, "group");
      if (names.mask.empty()) {
        labels.push_back(example.values(names.label, "label"));
      } else {
        example.feature(names.mask, "mask");
        sample.masks = {sample.path + "/" + names.mask};
      }
      sample.place = {static_cast<int64_t>(number), place->number, place->offset, place->size,
                      walk.told_checksum(*place)};
      if (!sample.masks.empty()) sample.mask_places = {sample.place};
      table.add(std::move(sample), names.mask.empty() ? bytes_of(labels.back()) : 0);
    }
  }
  dataset.notes.push_back(count_of(static_cast<int64_t>(records->files().size()), "TFRecord file") + ", " +
                          with_commas(static_cast<int64_t>(dataset.samples.size())) + " records, " +
                          with_commas(bytes_of_records) + " bytes");
  finish_records(options, names.names, labels, dataset);
}

}  // namespace dtrain
