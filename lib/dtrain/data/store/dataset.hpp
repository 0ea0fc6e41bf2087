#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/task.hpp"
#include "dtrain/data/options.hpp"
#include "dtrain/data/store/sample_store.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// Where a sample's bytes are in the record files of its data set.
struct RecordPlace {
  int64_t file = -1;      ///< number of the file; -1: a file of its own
  int64_t number = 0;     ///< of the record, from 0; an archive has none
  int64_t offset = 0;     ///< where it begins in the file (after decompression)
  int64_t size = 0;       ///< bytes of it
  uint32_t checksum = 0;  ///< of these, from the file; an archive has none
};

/// One sample of a data set, without its pixels.
struct Sample {
  std::string path;                ///< relative to root, with '/' between folders, a page of a stack as FILE#PAGE; the
                                   ///< sample's name everywhere; of several files
                                   ///< (data.image.files) the first
  std::string group;               ///< patient; "" if the data have none
  std::string part;                ///< "train", "valid", "test" where the data say so (Dataset::own_parts), else ""
  std::vector<float> labels;       ///< multilabel: one per class, 0, 1 or NaN (unknown)
  int64_t class_index = -1;        ///< multiclass
  std::vector<std::string> masks;  ///< segmentation: relative to root; their union is the mask
  RecordPlace place;               ///< of the picture, if samples are in record files
  std::vector<RecordPlace> mask_places;
  uint64_t id = 0;  ///< hash64(path): keys augmentation and the coverage receipt
};

/// What gives samples their part (Sample::part), other than data.split.
struct OwnParts {
  enum class By {
    nothing,
    folders,  ///< named like parts (part_folders.hpp)
    names,    ///< of record files, of official lists; a packed set's own
    column,   ///< data.csv.split
  };
  By by = By::nothing;
  std::string what;  ///< for messages: "the folders train/, test/"
  bool one = false;  ///< `what` is singular
};

/// What exists, before any split: every sample in a fixed order (natural order of the paths), the same on every rank.
struct Dataset {
  Task task = Task::multilabel;  ///< never from_format
  const DataFormat* format = &image_folder_format();
  std::string root;
  std::vector<std::string> classes;        ///< names of the outputs, in order
  std::map<int64_t, int64_t> mask_values;  ///< segmentation: pixel value of a mask → k + 1 for classes[k]
  std::vector<Sample> samples;
  OwnParts own_parts;
  /// A column of the label file that looks like patients, has repeated values, and that no key names; else "".
  std::string unused_patients;
  std::vector<std::string> notes;     ///< one line each for the banner: rows left out, labels unknown …
  std::vector<std::string> warnings;  ///< likewise what may not be meant
  std::vector<std::string> left_out;  ///< names in the label file of pictures that are absent (data.on_missing: skip)
  /// Over classes, and path, labels, group, masks and file sizes of every sample, TFRecords' checksums too.
  std::string manifest_sha256;
  std::shared_ptr<const SampleStore> store;  ///< where the bytes are; open_dataset() sets it, and the data set keeps it
  /// Words after '@' in the names of turned copies (dtrain pack --expand): "a.png@hflip" is a copy of "a.png".
  std::vector<std::string> turns;
};

/// Throws MissingError if a file has vanished since the scan, IoError; DataError naming file, record and offset for a
/// damaged record.
SampleFiles read_sample_files(const Dataset& dataset, int64_t index);

/// What the picture of sample `index` is called in messages: its file, or record file, record and offset.
std::string picture_name(const Dataset& dataset, int64_t index);

/// Decoded picture of sample `index`. Throws DataError naming the file.
Image decode_picture(const Dataset& dataset, int64_t index, const SampleFiles& files);

/// Class of each pixel, 0 = background, k + 1 = dataset.classes[k] (8-bit, one channel): mask_values applied to the
/// grey values, or in a PNG with a coloured palette to the indices (decode_mask_image()), several masks merged (the
/// later one wins where they overlap). Throws like decode_picture, DataError for a coloured mask and for masks of one
/// sample that differ in size.
Image decode_mask(const Dataset& dataset, int64_t index, const SampleFiles& files);

/// decode_picture and decode_mask of the files as they are now; each reads no more than it needs.
Image read_picture(const Dataset& dataset, int64_t index);
Image read_mask(const Dataset& dataset, int64_t index);

/// Pixels of each class in a mask of read_mask(): [classes + 1], first the background.
std::vector<int64_t> count_mask_pixels(const Image& mask, int64_t classes);

/// The pixel values in the mask files of sample `index`, before mask_values: ascending, each once, at most the 16
/// smallest; nothing if masks already hold classes. To explain why masks are empty. Throws like read_mask.
std::vector<int64_t> mask_values_found(const Dataset& dataset, int64_t index);

/// How many pixels of the mask files of sample `index` have each of the values that mask_values does not list, so that
/// they count as background, except 0, which is background by convention; nothing if masks already hold classes.
/// `files`: the sample's, which decode_mask() takes.
std::map<int64_t, int64_t> unlisted_mask_values(const Dataset& dataset, int64_t index, const SampleFiles& files);

/// "masks/a.png": the first mask of sample `index`, for messages; its picture if no mask is a file.
std::string mask_file(const Dataset& dataset, int64_t index);

/// Throws DataError naming both unless the picture of sample `index` and its mask have one size.
void require_same_size(const Dataset& dataset, int64_t index, const Image& picture, const Image& mask);

}  // namespace dtrain
