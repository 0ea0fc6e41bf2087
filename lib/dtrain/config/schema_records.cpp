#include "dtrain/config/schema.hpp"

namespace dtrain {

namespace {

/// The keys of one format; both formats ask for the same things, only what a key names differs.
class RecordKeys {
 public:
  RecordKeys(const std::string& format, bool in_use, bool with_masks, std::vector<Key>& keys)
      : prefix_("data." + format + "."), format_(format), in_use_(in_use), with_masks_(with_masks), keys_(keys) {}

  Key& add(const std::string& name, Codec codec, const std::string& doc) {
    keys_.emplace_back(prefix_ + name, std::move(codec), doc);
    return keys_.back().only(in_use_, "`data.format` is " + format_, {"data.format"});
  }

  /// A key about labels, which masks do without.
  Key& add_of_labels(const std::string& name, Codec codec, const std::string& doc) {
    return add(name, std::move(codec), doc)
        .only(in_use_ && !with_masks_, "`data.format` is " + format_ + " without `" + prefix_ + "mask`",
              {"data.format", prefix_ + "mask"});
  }

 private:
  std::string prefix_;
  std::string format_;
  bool in_use_;
  bool with_masks_;
  std::vector<Key>& keys_;
};

}  // namespace

std::vector<Key> describe_record_files(DataOptions& data) {
  const std::string label =
      ": a class by its number or name; for task multilabel a number for each class, 0, 1 or NaN (unknown), or the "
      "names of those that are present.";
  const std::string names = "Names of the classes, in the order of the numbers 0, 1, … that labels use.";
  const std::string as_found = "what stands in the records, in natural order";
  std::vector<Key> keys;
  const bool masks = has_mask_files(data);

  TfRecordOptions& t = data.tfrecord;
  RecordKeys tfrecord("tfrecord", data.format == DataFormat::tfrecord, masks, keys);
  tfrecord.add("image", text_codec(t.image), "Feature with the bytes of a picture file.");
  tfrecord.add_of_labels("label", text_codec(t.label), "Feature with the label" + label);
  tfrecord.add_of_labels("names", texts_codec(t.names), names).default_is(as_found);
  tfrecord.add("group", text_codec(t.group), "Feature with the patient or another group.").default_is("none");
  tfrecord.add("mask", text_codec(t.mask), "Feature with the bytes of a mask's PNG file, for segmentation.")
      .default_is("none");

  WebDatasetOptions& w = data.webdataset;
  RecordKeys webdataset("webdataset", data.format == DataFormat::webdataset, masks, keys);
  webdataset.add("image", texts_codec(w.image), "Extensions of pictures; of several in a sample the first counts.");
  webdataset.add_of_labels(
      "label", text_codec(w.label),
      "Extension of the file with the label (text, one name a line), or json:FIELD for a field of a JSON file" + label);
  webdataset.add_of_labels("names", texts_codec(w.names), names).default_is(as_found);
  webdataset
      .add("group", text_codec(w.group), "Extension of the file with the patient or another group, or json:FIELD.")
      .default_is("none");
  webdataset.add("mask", text_codec(w.mask), "Extension of masks, as seg.png, for segmentation.").default_is("none");
  return keys;
}

}  // namespace dtrain
