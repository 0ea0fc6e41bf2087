#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/memory.hpp"
#include "dtrain/data/formats/part_folders.hpp"
#include "dtrain/data/reading.hpp"
#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// Puts samples into a data set, and asks for the memory of its table. Throws like MemoryDraw::take().
class SampleTable {
 public:
  explicit SampleTable(Dataset& dataset)
      : samples_(dataset.samples), memory_("the table of the samples of " + dataset.root, "use fewer samples") {}
  /// `beside`: bytes that the caller keeps with it.
  void add(Sample sample, int64_t beside = 0);

 private:
  std::vector<Sample>& samples_;
  MemoryDraw memory_;
};

/// Reads folders and label files, decodes no picture. Throws MissingError (root, list, label file; pictures named in a
/// label file but absent: all of them, or with data.on_missing skip if none exists: counted, 20 listed), DataError
/// (empty class folder, a mask without image or an image without mask, an unknown label with row and value, a class
/// name that is not UTF-8, two pictures with one base name where base names are used, a link that leads out of root),
/// ConfigError (data.classes names a class that does not exist; task and format that do not fit). Patients and other
/// columns of a label file are never part of a message.
/// Hidden files are left out; pictures are recognised by name (has_image_extension). Every page of a TIFF stack, and
/// every frame of a DICOM file, is a sample of its own, FILE#PAGE (io/picture_pages.hpp), also in label and list files.
/// If root has folders named like parts, or data.split.folders names folders, each sample has a part (part_folders.hpp,
/// also for DataError). Label files that name only pictures of the training part give no parts. Folders and record
/// files that sound like parts where nothing says that they are (judge_sounding_folders()) are a DataError. What each
/// format's files look like is described beside its row, in its own file.
Dataset open_dataset(const DataOptions& options, Task task, uint64_t seed);

// DataFormat::readings of formats that need a file for them, and the rows that they are of.
const DataFormat& csv_format();
const DataFormat& image_mask_format();
std::vector<Reading> image_folder_readings(const FolderLook& look);
std::vector<Reading> csv_readings(const FolderLook& look);
std::vector<Reading> image_mask_readings(const FolderLook& look);

// What the readers of formats (DataFormat::open) share.

/// The name is one that people give to a column of patients: "Patient ID", "subject" …
bool sounds_like_patients(std::string_view column);

/// Throws ConfigError: the format of `options` is not for this task.
[[noreturn]] void refuse_task(const DataOptions& options, Task task);

/// nnU-Net's layout, a special case of pictures with masks.
bool is_nnunet(const DataOptions& options);
/// DataFormat::own_channels: the channel files of its cases, as dataset.json counts them.
void nnunet_channels(const DataOptions& options, ImageOptions& image);
void read_nnunet(const DataOptions& options, Dataset& dataset);

/// The 14 labels of ChestX-ray14, in the usual order: their classes.
const std::vector<std::string>& nih_findings();

/// The index of each name of data.classes in `classes`. Throws ConfigError for an unknown name, with the known ones,
/// and for one named twice.
std::vector<int64_t> places_of(const std::vector<std::string>& wanted, const std::vector<std::string>& classes);

/// Classes and mask_values of `dataset` from a map of pixel value → class 1, 2, … as the configuration gives it; empty:
/// {255: 1}. Throws ConfigError unless the classes are 1 … n <= 255 without a gap.
void set_mask_values(const std::map<int64_t, int64_t>& mask_values, Dataset& dataset);

// What a format's row needs of mask_values: class names, their number, and the check that none is left out.
std::optional<std::vector<std::string>> mask_classes_told(const DataOptions& options);
std::optional<int64_t> mask_classes_count(const DataOptions& options);
void check_mask_values(const DataOptions& options, KeyReport& report);

/// Pages of one stack are slices of one volume: their group is the stack's name. Not if all are of one stack, which any
/// split would have to cut.
void group_stacks(Dataset& dataset);

/// "foreground" for one class, else "1", "2" …
std::vector<std::string> mask_class_names(int64_t classes);

}  // namespace dtrain
