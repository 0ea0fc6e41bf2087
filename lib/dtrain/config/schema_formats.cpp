#include "dtrain/config/format_texts.hpp"
#include "dtrain/config/schema.hpp"

namespace dtrain {

namespace {

/// The keys of one format, data.NAME.*, which have an effect only with it.
class FormatKeys {
 public:
  FormatKeys(const std::string& format, const DataOptions& data, std::vector<Key>& keys)
      : prefix_("data." + format + "."),
        format_(format),
        in_use_(data.format->name == format),
        with_masks_(has_mask_files(data)),
        keys_(keys) {}

  bool in_use() const { return in_use_; }
  std::string when() const { return "`data.format` is " + format_; }

  Key& add(const std::string& name, Codec codec, const std::string& doc) {
    keys_.emplace_back(prefix_ + name, std::move(codec), doc);
    return keys_.back().only(in_use_, when(), {"data.format"});
  }

  /// A key about labels, which masks do not need.
  Key& add_of_labels(const std::string& name, Codec codec, const std::string& doc) {
    return add(name, std::move(codec), doc)
        .only(in_use_ && !with_masks_, when() + " without `" + prefix_ + "mask`", {"data.format", prefix_ + "mask"});
  }

 private:
  std::string prefix_;
  std::string format_;
  bool in_use_;
  bool with_masks_;
  std::vector<Key>& keys_;
};

void describe_chexpert(ChexpertOptions& o, FormatKeys keys) {
  keys.add("uncertain", choice_codec(o.uncertain),
           "What a label of -1 counts as. ignore: unknown, in no loss and no metric; ones: 1; zeros: 0.");
  keys.add("uncertain_labels", choice_map_codec(o.uncertain_labels, chexpert_observations()),
           "The same for single labels, such as `{Atelectasis: ones, Edema: ones}`. Replaced whole by later sources.");
  keys.add("unmentioned",
           words_codec(
               {"zeros", "ignore"}, [&o] { return o.unmentioned_unknown ? 1 : 0; },
               [&o](int i) { o.unmentioned_unknown = i == 1; }),
           "What an empty cell (not mentioned in the report) counts as. zeros: 0; ignore: unknown.");
}

void describe_csv(DataOptions& data, FormatKeys keys) {
  CsvOptions& o = data.csv;
  keys.add("path", text_codec(o.path), "Column with the picture's path under `data.root`, or its base name.");
  keys.add("labels", texts_codec(o.labels),
           "One column per label, each 0, 1 or empty (unknown). Either this or `data.csv.label`.")
      .default_is("none");
  keys.add("label", text_codec(o.label), "One column with the class, or with several joined by `data.csv.separator`.")
      .default_is("none");
  keys.add("separator", text_codec(o.separator),
           "What separates several labels in one field, such as \";\"; spaces around it are ignored; goes with "
           "`data.csv.label`.")
      .default_is("none: one class per field");
  keys.add("group", text_codec(o.group), "Column with the patient or another group.").default_is("none");
  keys.add("split", text_codec(o.split),
           "Column with the part of each row: train, valid or test, or another usual word for them; if it names no "
           "validation row, `data.split.valid` or `.fold` is taken from the training part.")
      .only(keys.in_use() && data.split.files.empty() && data.split.folders.empty(),
            keys.when() + " and neither `data.split.files` nor `data.split.folders` is given",
            {"data.format", "data.split.files.train", "data.split.files.valid", "data.split.files.test",
             "data.split.folders.train", "data.split.folders.valid", "data.split.folders.test"})
      .default_is("none")
      .older_runs_had("none");
}

void describe_image_mask(DataOptions& data, FormatKeys keys) {
  ImageMaskOptions& o = data.image_mask;
  std::vector<std::string> by = {"data.format"};
  for (const DataFormat* format : data_formats())
    if (!format->masks_key.empty()) by.push_back(format->masks_key);
  keys.add("images", path_codec(o.images, PathRule::name_under_root),
           "Folder of pictures under `data.root`, or under each sample's folder.");
  keys.add(
      "masks", path_codec(o.masks, PathRule::name_under_root),
      "Folder of masks: paired with the pictures by name without ending, or all masks of a sample's folder, merged.");
  keys.add("mask_suffix", text_codec(o.mask_suffix),
           "What the name of a mask has between that of its picture and the ending, such as _mask or _segmentation; "
           "pictures and masks may then share a folder.")
      .default_is("none")
      .older_runs_had("none");
  keys.add("mask_values", mask_values_codec(o.mask_values),
           "Class 1, 2, … of each pixel value of a mask; values not listed are background. Replaced whole by later "
           "sources.")
      .only(has_mask_files(data), when_format(always_masks) + ", or record files have masks", by)
      .default_is("`{255: 1}`; in nnU-Net's layout the labels of dataset.json");
}

void describe_synthetic(SyntheticOptions& o, FormatKeys keys) {
  keys.add("samples", whole_codec(o.samples, {.min = 1, .max = 1000000000}),
           "Pictures made in memory, with labels that a network can learn.");
  keys.add("classes", whole_codec(o.classes, {.min = 1, .max = 100000}), "Classes among them.");
}

const std::string kLabel =
    ": a class by its number or name; for task multilabel a number for each class, 0, 1 or NaN (unknown), or the names "
    "of those that are present.";
const std::string kNames = "Names of the classes, in the order of the numbers 0, 1, … that labels use.";
const std::string kAsFound = "what the records contain, in natural order";

void describe_tfrecord(TfRecordOptions& o, FormatKeys keys) {
  keys.add("image", text_codec(o.image), "Feature with the bytes of a picture file.");
  keys.add_of_labels("label", text_codec(o.label), "Feature with the label" + kLabel);
  keys.add_of_labels("names", texts_codec(o.names), kNames).default_is(kAsFound);
  keys.add("group", text_codec(o.group), "Feature with the patient or another group.").default_is("none");
  keys.add("mask", text_codec(o.mask), "Feature with the bytes of a mask's PNG file, for segmentation.")
      .default_is("none");
}

void describe_webdataset(WebDatasetOptions& o, FormatKeys keys) {
  keys.add("image", texts_codec(o.image), "Extensions of pictures; if a sample has several, the first is used.");
  keys.add_of_labels(
      "label", text_codec(o.label),
      "Extension of the file with the label (text, one name per line), or json:FIELD for a field of a JSON file" +
          kLabel);
  keys.add_of_labels("names", texts_codec(o.names), kNames).default_is(kAsFound);
  keys.add("group", text_codec(o.group), "Extension of the file with the patient or another group, or json:FIELD.")
      .default_is("none");
  keys.add("mask", text_codec(o.mask), "Extension of masks, such as seg.png, for segmentation.").default_is("none");
}

}  // namespace

std::vector<Key> describe_formats(DataOptions& data) {
  std::vector<Key> keys;
  describe_chexpert(data.chexpert, {"chexpert", data, keys});
  describe_csv(data, {"csv", data, keys});
  describe_image_mask(data, {"image_mask", data, keys});
  describe_synthetic(data.synthetic, {"synthetic", data, keys});
  describe_tfrecord(data.tfrecord, {"tfrecord", data, keys});
  describe_webdataset(data.webdataset, {"webdataset", data, keys});
  return keys;
}

}  // namespace dtrain
