#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/task.hpp"

namespace dtrain {

struct DataOptions;
struct Dataset;
struct FolderLook;
struct ImageOptions;
struct Reading;

/// The configuration as a format's own check sees it, and where it says what is wrong.
class KeyReport {
 public:
  virtual ~KeyReport() = default;
  /// The configuration sets the key.
  virtual bool given(const std::string& key) const = 0;
  /// None of these was refused on its own, so their values can be used.
  virtual bool sound(const std::vector<std::string>& keys) const = 0;
  /// Where the key is set, for messages: "a.yaml:7".
  virtual std::string where(const std::string& key) const = 0;
  /// Reported at the place of the first of `keys` that is set.
  virtual void wrong(const std::vector<std::string>& keys, const std::string& sentence) = 0;
};

/// A layout of pictures and labels on disk: one row, beside its reader. Choices, checks and documentation of the
/// configuration, and whatever else differs between formats, follow from it. docs/contributing.md explains how to add
/// one.
struct DataFormat {
  enum class LabelFile {
    none,
    optional,  ///< data.labels may name it
    required,
  };
  /// What folders under data.root are.
  enum class Folders {
    nothing,  ///< they mean nothing, except that they may be parts
    classes,  ///< or parts, which contain these
    masks,    ///< a folder of pictures and one of masks, or parts, which contain these
  };

  std::string name;               ///< of data.format; also of its own keys, data.NAME.*
  std::string wants = {};         ///< what a folder needs for it, in a few words, for people; "": not to be proposed
  std::string task_default = {};  ///< for the documentation of `task`: what it is if tasks() gives one

  /// The tasks that its samples can be for, as far as the options say; the first is the default. Empty: any; open()
  /// settles Task::from_format.
  std::vector<Task> (*tasks)(const DataOptions&) = nullptr;
  /// Fills classes, samples (without ids, in any order), notes, own_parts (as far as the reader knows, whether or not
  /// any sample has a part) and store (unset: files beneath root) of a data set whose task, format and root are set.
  /// `seed`: of the run.
  void (*open)(const DataOptions&, uint64_t seed, Dataset&) = nullptr;
  /// What is wrong between its keys, beyond what holds for all formats. Null: nothing to check. `task` as it will be.
  void (*check)(const DataOptions&, Task task, KeyReport&) = nullptr;

  /// The ways in which a folder that no configuration describes may be read (data/reading.hpp), the likeliest first.
  /// They are guesses from names and tables: the caller opens each to see which hold. Null: none.
  std::vector<Reading> (*readings)(const FolderLook& look) = nullptr;

  /// Class names as far as the options give them, regardless of data.classes; null: only the data have them.
  std::optional<std::vector<std::string>> (*class_names)(const DataOptions&) = nullptr;
  /// Their number, if it is known without names, or separately. Null: the number of names.
  std::optional<int64_t> (*class_count)(const DataOptions&) = nullptr;
  std::vector<std::string> class_keys = {};  ///< the keys that decide both
  std::string classes_told_by = "the data";  ///< for messages; for a format with a label file: that file

  /// Sets data.image.files or .slices where the data themselves say it. Reads a description and the names in a folder,
  /// and no more; whatever is wrong with them is left to open(). Null: they never do.
  void (*own_channels)(const DataOptions&, ImageOptions&) = nullptr;

  bool generated = false;     ///< made in memory: no root, no files, as many samples as are asked for
  bool record_files = false;  ///< several samples in a file; data.root may be one such file
  /// Record files: whether a file is one, by its name.
  bool (*is_record_file)(const std::string& name) = nullptr;
  /// Record files: fills samples, in the order of the files, notes and store with every picture that they hold. No
  /// labels, masks or groups are read, nor need there be any.
  void (*list_pictures)(const DataOptions&, Dataset&) = nullptr;
  LabelFile label_file = LabelFile::none;
  std::string default_labels = {};  ///< for the documentation of data.labels: what is used if it is not given
  std::vector<std::string> table_columns = {};  ///< a label file that has all of these is one of this format
  Folders folders = Folders::nothing;
  /// There are mask files, whose pixel values data.image_mask.mask_values turns into classes. Null: never.
  bool (*has_masks)(const DataOptions&) = nullptr;
  std::string masks_key = {};       ///< decides has_masks(); "": fixed
  std::string group_key = {};       ///< names the column, or the like, with patients
  bool guesses_groups = false;      ///< a sample's group is taken from its file name, and may not be a patient
  bool drops_first_folder = false;  ///< paths in its label file may begin with a folder that root does not have
};

/// Every format, in the order of the documentation.
const std::vector<const DataFormat*>& data_formats();

/// Sets data.image.files or .slices where the options give neither and the data say it themselves, and the channels
/// that follow (DataFormat::own_channels).
void take_own_channels(DataOptions& options);

/// The format of that name. Throws InternalError if there is none: names from users have been checked before.
const DataFormat* format_named(const std::string& name);

/// The one whose pictures are made in memory, for benchmarks.
const DataFormat* generated_format();

/// The value in DataOptions until a configuration has named a format.
const DataFormat& image_folder_format();

}  // namespace dtrain
