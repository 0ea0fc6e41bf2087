#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/task.hpp"
#include "dtrain/data/options.hpp"
#include "dtrain/io/image.hpp"
#include "dtrain/io/packed_shard.hpp"

namespace dtrain {

class PackedSet;
class RecordSet;

/// Where a sample's bytes lie in the record files of its data set.
struct RecordPlace {
  int64_t file = -1;      ///< number of the file; -1: a file of its own
  int64_t number = 0;     ///< of the record, from 0; an archive has none
  int64_t offset = 0;     ///< where it begins in the file (what was compressed: decompressed)
  int64_t size = 0;       ///< bytes of it
  uint32_t checksum = 0;  ///< of these, as the file tells it; an archive has none
};

/// One sample of a data set, without its pixels.
struct Sample {
  std::string path;                ///< relative to root, with '/' between folders, a page of a stack as FILE#PAGE; the
                                   ///< sample's name everywhere
  std::string group;               ///< patient; "" when the data tell none
  std::string part;                ///< "train", "valid", "test" where the data say so (Dataset::own_parts), else ""
  std::vector<float> labels;       ///< multilabel: one per class, 0, 1 or NaN (unknown)
  int64_t class_index = -1;        ///< multiclass
  std::vector<std::string> masks;  ///< segmentation: relative to root; their union is the mask
  RecordPlace place;               ///< of the picture, where samples lie in record files
  std::vector<RecordPlace> mask_places;
  uint64_t id = 0;  ///< hash64(path): keys augmentation and the coverage receipt
};

/// What tells the parts of samples (Sample::part) apart from data.split.
struct OwnParts {
  enum class By {
    nothing,
    folders,  ///< called like parts (part_folders.hpp)
    names,    ///< of record files, of CheXpert's lists; a packed set's own
    column,   ///< data.csv.split
  };
  By by = By::nothing;
  std::string what;  ///< for messages: "the folders train/, test/"
};

/// What exists, before any split: every sample in a fixed order (natural order of the paths), the same on every rank.
struct Dataset {
  Task task = Task::multilabel;  ///< never from_format
  DataFormat format = DataFormat::image_folder;
  std::string root;
  std::vector<std::string> classes;        ///< names of the outputs, in order
  std::map<int64_t, int64_t> mask_values;  ///< segmentation: pixel value of a mask → k + 1 for classes[k]
  std::vector<Sample> samples;
  OwnParts own_parts;
  std::vector<std::string> notes;     ///< one line each for the banner: rows left out, labels unknown …
  std::vector<std::string> left_out;  ///< names in the label file of pictures that are absent (data.on_missing: skip)
  /// Over classes, and path, labels, group, masks and file sizes of every sample, TFRecords' checksums too.
  std::string manifest_sha256;
  std::shared_ptr<const RecordSet> records;  ///< the open record files; null where samples are files
  std::shared_ptr<const PackedSet> packed;   ///< the open shards of format packed, else null
};

/// Reads folders and label files, decodes no picture. Throws MissingError (root, list, label file; pictures named in a
/// label file but absent: all, or with data.on_missing skip where none is there: counted, 20 listed), DataError (empty
/// class folder, a mask without image or an image without mask, an unknown label with row and value, a class name that
/// is not UTF-8, two pictures of one base name where base names decide, a link that leads out of root), ConfigError
/// (data.classes names a class that is not there; task and format that do not fit). Patients and other columns of a
/// label file are never part of a message.
///
/// Hidden files are left out; what is a picture is told by its name (has_image_extension). Every page of a TIFF stack
/// is a sample of its own, FILE#PAGE (io/tiff_pages.hpp), also in label and list files. Where root holds folders called
/// like parts, or data.split.folders names folders, each sample knows its part (part_folders.hpp, DataError too). Label
/// files that name pictures of the training part alone tell no part.
///
/// image_folder  root/CLASS/…/picture, or root/PART/CLASS/…; classes sorted by name (bytes, as torchvision does).
///               Group: the file name up to its first '_' or '.'.
/// nih_cxr14     labels: the official CSV (columns `Image Index`, `Finding Labels`; `Patient ID` is the group, without
///               it the file name up to its first '_'), pictures found by base name at any depth under root; the 14
///               labels in the usual order; `No Finding` = all zero.
/// chexpert      labels: a file with the columns of CheXpert (`Path` and the 14 observations: 1, 0, -1 or empty); "":
///               train.csv, valid.csv and test.csv under root, as far as they are there, each the part of its name.
///               Leading folders of a path that root does not hold ("CheXpert-v1.0-small/") are dropped. The folder
///               patientNNNNN of a path is the group. See ChexpertOptions for -1 and empty.
/// csv           see CsvOptions; the path column is a path under root, or a base name found at any depth. One label
///               column: its values are the classes, in natural order; without separator an empty value is an error.
///               Multilabel columns: 1, 0, or empty for unknown.
/// image_mask    root/IMAGES/name + root/MASKS/name paired by stem, or one folder per sample, each with its own
///               IMAGES/ (one picture) and MASKS/ whose union is the mask; either of them also beneath PART/. A stack
///               is paired with a stack of as many pages, page by page. Masks are no JPEG, which changes pixel values.
///               Classes: "foreground", or "1", "2" … where mask_values has several.
///               Or nnU-Net's layout, where root holds dataset.json and imagesTr/ but no IMAGES/:
///               imagesTr/CASE_0000.png and labelsTr/CASE.png, stacks page by page; classes and pixel values are the
///               `labels` of dataset.json unless mask_values is given. NIfTI, cases of several channel files, regions
///               and an ignore label are refused.
/// tfrecord      files of tf.train.Example at any depth, told by their names (*.tfrecord, *.tfrec, *.record, each also
///               in the plural, with -00001-of-00010 or .gz behind it, or *-00001-of-00010 alone); a sample's path is
///               FILE/NUMBER of the record, from 0. Features: see TfRecordOptions. Data's checksums are verified when a
///               sample is read, not here.
/// webdataset    *.tar, *.tar.gz and *.tgz at any depth; members with one key (their name up to the first dot of its
///               last part) are one sample, wherever they stand in the archive; a sample's path is FILE/MEMBER.
/// Of both, root may be one such file, of any name.
/// Record files whose names begin with train and with val, valid, validation or test tell the parts, like folders.
/// packed        the shards that manifest.json lists (packed_set.hpp), written by pack.hpp: samples, names, labels,
///               groups and parts as the packed set had them; no file is opened for a sample. Masks hold class numbers.
/// synthetic     made in memory from `seed`.
Dataset open_dataset(const DataOptions& options, Task task, uint64_t seed);

/// A sample's files as they are on disk; empty for a synthetic one.
struct SampleFiles {
  std::vector<std::byte> picture;
  std::vector<std::vector<std::byte>> masks;  ///< as Sample::masks
  PackedBytes packed;                         ///< instead of them, of a packed sample; lies in its shard

  std::span<const std::byte> picture_bytes() const { return packed.picture.empty() ? picture : packed.picture; }
  int64_t bytes() const;  ///< of all of them
};

/// Throws MissingError if a file has vanished since the scan, IoError; DataError naming file, record and offset for a
/// damaged record.
SampleFiles read_sample_files(const Dataset& dataset, int64_t index);

/// What the picture of sample `index` is called in messages: its file, or record file, record and offset.
std::string picture_name(const Dataset& dataset, int64_t index);

/// Decoded picture of sample `index`, made in memory for a synthetic one. Throws DataError naming the file.
Image decode_picture(const Dataset& dataset, const DataOptions& options, int64_t index, uint64_t seed,
                     const SampleFiles& files);

/// Class of each pixel, 0 = background, k + 1 = dataset.classes[k] (8-bit, one channel): mask_values applied to the
/// grey values, or in a PNG with a coloured palette to the indices (decode_mask_image()), several masks united (the
/// later one wins where they overlap). Throws like decode_picture, DataError for a coloured mask and for masks of one
/// sample that differ in size.
Image decode_mask(const Dataset& dataset, const DataOptions& options, int64_t index, uint64_t seed,
                  const SampleFiles& files);

/// decode_picture and decode_mask of the files as they are now.
Image read_picture(const Dataset& dataset, const DataOptions& options, int64_t index, uint64_t seed);
Image read_mask(const Dataset& dataset, const DataOptions& options, int64_t index, uint64_t seed);

/// Pixels of each class in a mask of read_mask(): [classes + 1], first the background.
std::vector<int64_t> count_mask_pixels(const Image& mask, int64_t classes);

/// The pixel values that stand in the mask files of sample `index`, before mask_values: ascending, each once, the 16
/// smallest at most; nothing for a synthetic one. For telling why masks are empty. Throws like read_picture.
std::vector<int64_t> mask_values_found(const Dataset& dataset, const DataOptions& options, int64_t index);

/// Throws DataError naming both unless the picture of sample `index` and its mask have one size.
void require_same_size(const Dataset& dataset, int64_t index, const Image& picture, const Image& mask);

}  // namespace dtrain
